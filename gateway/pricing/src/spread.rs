//! Spreading a whole-cart amount over lines by largest remainder.

use ethnum::U256;

/// Shares of `total` (minor units, any sign) in proportion to `weights`; they sum to `total` exactly. Units that do not
/// divide go to the largest remainders, ties in the order of `tie_order` (a permutation of the indices). All weights 0:
/// equal weights. No weights: no shares.
pub(crate) fn spread(total: i128, weights: &[u128], tie_order: &[usize]) -> Option<Vec<i128>> {
    let equal = weights.iter().all(|weight| *weight == 0);
    let weights: Vec<U256> = weights.iter().map(|weight| if equal { U256::ONE } else { U256::from(*weight) }).collect();
    let mut weight_sum = U256::ZERO;
    for weight in &weights {
        weight_sum = weight_sum.checked_add(*weight)?;
    }
    let magnitude = U256::from(total.unsigned_abs());
    let mut shares = Vec::with_capacity(weights.len());
    let mut given: u128 = 0;
    for weight in &weights {
        let product = magnitude.checked_mul(*weight)?;
        let share = u128::try_from(product.checked_div(weight_sum)?).ok()?;
        given = given.checked_add(share)?;
        shares.push((share, product.checked_rem(weight_sum)?));
    }
    let mut by_remainder: Vec<usize> = tie_order.to_vec();
    by_remainder.sort_by_key(|index| std::cmp::Reverse(shares.get(*index).map(|share| share.1)));
    // Fewer units are left than there are lines, so nobody gets two.
    let left = usize::try_from(total.unsigned_abs().checked_sub(given)?).ok()?;
    for index in by_remainder.iter().take(left) {
        let share = shares.get_mut(*index)?;
        share.0 = share.0.checked_add(1)?;
    }
    let signed = |share: u128| {
        let share = i128::try_from(share).ok()?;
        if total < 0 { share.checked_neg() } else { Some(share) }
    };
    shares.into_iter().map(|(share, _)| signed(share)).collect()
}
