//! How a policy's parts become the contract's three functions.

use crate::contract::{Configuration, Context, Fact, Guest, Manifest, Outcome, Refusal, Scope};
use crate::line::Line;
use crate::parameters::{self, Parameters};

/// A policy, as [`policy!`](crate::policy!) writes it down. Authors do not implement it by hand.
pub trait Definition {
    type Parameters: Parameters;

    const NAME: &'static str;
    const VERSION: &'static str;
    const SCOPE: Scope;
    const READS: &'static [&'static str];
    const PRODUCES: &'static [&'static str];
    const CLAIMS: &'static [(&'static str, &'static str)] = &[];

    /// What no schema can say: one refusal for each thing wrong, each with its pointer.
    fn validate(_parameters: &Self::Parameters) -> Vec<Refusal> {
        Vec::new()
    }

    /// What is left of `READS` with these parameters.
    fn reads(_parameters: &Self::Parameters) -> Vec<String> {
        owned(Self::READS)
    }

    /// What is left of `PRODUCES` with these parameters.
    fn produces(_parameters: &Self::Parameters) -> Vec<String> {
        owned(Self::PRODUCES)
    }

    fn evaluate(parameters: &Self::Parameters, context: &Context) -> Result<Outcome, Refusal>;
}

impl<D: Definition> Guest for D {
    fn describe() -> Manifest {
        let facts = D::CLAIMS.iter().map(|(key, value)| Fact::new(*key, *value)).collect();
        Manifest {
            name: D::NAME.to_owned(),
            version: D::VERSION.to_owned(),
            scope: D::SCOPE,
            reads: owned(D::READS),
            produces: owned(D::PRODUCES),
            parameters_schema: parameters::schema::<D::Parameters>(),
            facts,
        }
    }

    fn configure(json: String) -> Result<Configuration, Vec<Refusal>> {
        let parameters = parameters::read::<D::Parameters>(&json).map_err(|refusal| vec![refusal])?;
        let wrong = D::validate(&parameters);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let bytes = parameters::encode(&parameters).map_err(|refusal| vec![refusal])?;
        Ok(Configuration { bytes, reads: D::reads(&parameters), produces: D::produces(&parameters) })
    }

    fn evaluate(config: Vec<u8>, context: Context) -> Result<Outcome, Refusal> {
        D::evaluate(&parameters::decode(&config), &context)
    }
}

/// Evaluates a rule for every line alone and gathers what it says, each adjustment and refusal bound to its line.
pub fn every_line<P, O: Into<Outcome>>(
    parameters: &P,
    context: &Context,
    rule: impl Fn(&P, Line<'_>) -> Result<O, Refusal>,
) -> Result<Outcome, Refusal> {
    let mut whole = Outcome::default();
    for line in context.lines() {
        let mut outcome: Outcome = rule(parameters, line).map_err(|refusal| refusal.on(line.key))?.into();
        for adjustment in &mut outcome.adjustments {
            adjustment.line = Some(line.key);
        }
        whole.adjustments.append(&mut outcome.adjustments);
        whole.added.append(&mut outcome.added);
        whole.facts.append(&mut outcome.facts);
    }
    Ok(whole)
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Puts a policy together: exports the world under wasm32 and defines the native handle `POLICY` elsewhere.
///
/// With `scope: line` the rule is `fn(&P, Line) -> Result<O, Refusal>`, called for one line at a time; `O` is an
/// [`Outcome`], an [`Adjustment`](crate::Adjustment), an option or a list of them. With `scope: quote` it is
/// `fn(&P, &Context) -> Result<Outcome, Refusal>`. Optional, after `evaluate` and in this order:
/// `validate: fn(&P) -> Vec<Refusal>`, `narrow_reads` and `narrow_produces`, both `fn(&P) -> Vec<String>`, and
/// `claims: [("not_monotone", "gpu_count")]` for the manifest's facts.
#[macro_export]
macro_rules! policy {
    (
        name: $name:literal,
        scope: $scope:ident,
        reads: [$($read:literal),* $(,)?],
        produces: [$($code:literal),* $(,)?],
        parameters: $parameters:ty,
        evaluate: $evaluate:path
        $(, validate: $validate:path)?
        $(, narrow_reads: $narrow_reads:path)?
        $(, narrow_produces: $narrow_produces:path)?
        $(, claims: [$($claim:expr),* $(,)?])?
        $(,)?
    ) => {
        #[derive(Debug)]
        #[doc(hidden)]
        pub struct Policy;

        impl $crate::Definition for Policy {
            type Parameters = $parameters;

            const NAME: &'static str = $name;
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            const SCOPE: $crate::contract::Scope = $crate::__scope!($scope);
            const READS: &'static [&'static str] = &[$($read),*];
            const PRODUCES: &'static [&'static str] = &[$($code),*];
            $(const CLAIMS: &'static [(&'static str, &'static str)] = &[$($claim),*];)?

            $(fn validate(parameters: &$parameters) -> Vec<$crate::Refusal> {
                $validate(parameters)
            })?

            $(fn reads(parameters: &$parameters) -> Vec<String> {
                $narrow_reads(parameters)
            })?

            $(fn produces(parameters: &$parameters) -> Vec<String> {
                $narrow_produces(parameters)
            })?

            fn evaluate(
                parameters: &$parameters,
                context: &$crate::Context,
            ) -> Result<$crate::Outcome, $crate::Refusal> {
                $crate::__evaluate!($scope, parameters, context, $evaluate)
            }
        }

        /// The policy without a sandbox, for native tests.
        #[cfg(not(target_arch = "wasm32"))]
        pub const POLICY: $crate::native::Policy = $crate::native::Policy::of::<Policy>(env!("CARGO_MANIFEST_DIR"));

        #[cfg(target_arch = "wasm32")]
        $crate::contract::__export_policy!(Policy with_types_in $crate::contract);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __scope {
    (line) => {
        $crate::contract::Scope::Line
    };
    (quote) => {
        $crate::contract::Scope::Quote
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __evaluate {
    (line, $parameters:ident, $context:ident, $rule:path) => {
        $crate::every_line($parameters, $context, $rule)
    };
    (quote, $parameters:ident, $context:ident, $rule:path) => {
        $rule($parameters, $context)
    };
}
