//! Currencies and their ISO 4217 minor-unit exponents.

use std::fmt;

/// An ISO 4217 currency that has minor units (JPY 0, USD 2, KWD 3). The table is the crate `iso_currency`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Currency {
    code: iso_currency::Currency,
    exponent: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an ISO 4217 currency with minor units, such as `CNY`")]
pub struct UnknownCurrency(String);

impl Currency {
    /// ```
    /// # use farebox_pricing::currency::Currency;
    /// let exponents = ["JPY", "USD", "KWD"].map(|code| Currency::parse(code).map(|currency| currency.exponent()));
    /// assert_eq!(exponents, [Ok(0), Ok(2), Ok(3)]);
    /// assert!(Currency::parse("cny").is_err() && Currency::parse("XAU").is_err());
    /// ```
    pub fn parse(code: &str) -> Result<Self, UnknownCurrency> {
        let unknown = || UnknownCurrency(code.chars().take(12).collect());
        let currency = iso_currency::Currency::from_code(code).ok_or_else(unknown)?;
        let exponent = currency.exponent().and_then(|digits| u8::try_from(digits).ok()).ok_or_else(unknown)?;
        if currency.code() == code { Ok(Self { code: currency, exponent }) } else { Err(unknown()) }
    }

    pub fn code(&self) -> &'static str {
        self.code.code()
    }

    /// Digits after the decimal point of a rounded amount.
    pub fn exponent(&self) -> u8 {
        self.exponent
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code())
    }
}
