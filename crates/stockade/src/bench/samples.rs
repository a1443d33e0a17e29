//! Measures several sides in alternation.

use std::time::{Duration, Instant};

use serde::Serialize;

/// The pause before each round of a quiet pass.
pub(super) const APART: Duration = Duration::from_millis(300);

/// Tables round to two digits; a smaller median prints as zero.
const LEAST_COMPARABLE: f64 = 0.005;

/// One measured side: `round` returns a number, or an error.
pub(super) struct Side<'s> {
    pub(super) name: String,
    /// The command, for users to run themselves.
    pub(super) command: String,
    pub(super) round: Box<dyn FnMut() -> anyhow::Result<f64> + 's>,
}

/// The numbers of one side with their quantiles.
#[derive(Debug, Serialize)]
pub(super) struct Samples {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) median: f64,
    pub(super) first_quartile: f64,
    pub(super) third_quartile: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    /// Our median divided by this one. Absent on our own side, and where this median prints as
    /// 0.00: a ratio over it is noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    /// Every number, in the order of measurement.
    pub(super) samples: Vec<f64>,
}

impl Samples {
    /// The last column of a table: the ratio, or "not comparable". Empty on our own side.
    pub(super) fn comparison(&self, is_ours: bool) -> String {
        match (is_ours, self.ratio) {
            (true, _) => String::new(),
            (false, Some(ratio)) => format!("{ratio:.2} ×"),
            (false, None) => "not comparable".to_owned(),
        }
    }

    /// The number that this share of the samples does not exceed.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        quantile(&sorted(&self.samples), share)
    }

    /// Compares the sides with the first.
    pub(super) fn compared(mut sides: Vec<Samples>) -> Vec<Samples> {
        let ours = sides.first().map(|first| first.median);
        for other in sides.iter_mut().skip(1) {
            other.ratio =
                ours.filter(|_| other.median >= LEAST_COMPARABLE).map(|ours| ours / other.median);
        }
        sides
    }

    pub(super) fn new(name: String, command: String, samples: Vec<f64>) -> Samples {
        let sorted = sorted(&samples);
        let at = |share: f64| quantile(&sorted, share);
        Samples {
            name,
            command,
            median: at(0.5),
            first_quartile: at(0.25),
            third_quartile: at(0.75),
            least: at(0.0),
            most: at(1.0),
            ratio: None,
            samples,
        }
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Interpolates linearly between the two nearest samples.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

/// Measures every side once per round. Reverses the order every round, so that the effect of one
/// side on the next is spread over all.
pub(super) fn in_turns(
    sides: &mut [Side<'_>],
    rounds: u32,
    pause: Duration,
    tell: impl Fn(u32),
) -> anyhow::Result<Vec<Samples>> {
    let mut measured = vec![Vec::new(); sides.len()];
    // One unmeasured round warms caches.
    for side in sides.iter_mut() {
        (side.round)()?;
    }
    for round in 0..rounds {
        tell(round);
        let mut order: Vec<usize> = (0..sides.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            std::thread::sleep(pause);
            measured[index].push((sides[index].round)()?);
        }
    }
    let all = sides
        .iter()
        .zip(measured)
        .map(|(side, samples)| Samples::new(side.name.clone(), side.command.clone(), samples));
    Ok(Samples::compared(all.collect()))
}

/// How long something takes, in milliseconds.
pub(super) fn timed<T>(act: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let before = Instant::now();
    let result = act()?;
    Ok((before.elapsed().as_secs_f64() * 1000.0, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_nearest_numbers() {
        let samples = Samples::new("x".into(), String::new(), vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((samples.median, samples.least, samples.most), (2.5, 1.0, 4.0));
        assert_eq!((samples.first_quartile, samples.third_quartile), (1.75, 3.25));
        assert_eq!(samples.samples, [4.0, 1.0, 3.0, 2.0], "as they were measured");
    }

    #[test]
    fn sides_alternate_and_are_compared_with_the_first() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name: &'static str, number: f64| Side {
            name: name.into(),
            command: String::new(),
            round: Box::new({
                let order = &order;
                move || {
                    order.borrow_mut().push_str(name);
                    Ok(number)
                }
            }),
        };
        let mut sides = [side("a", 3.0), side("b", 2.0)];
        let samples = in_turns(&mut sides, 3, Duration::ZERO, |_| {}).unwrap();
        assert_eq!(order.borrow().as_str(), "ababbaab");
        assert_eq!((samples[0].ratio, samples[1].ratio), (None, Some(1.5)));
    }

    #[test]
    fn ratio_over_a_zero_is_not_comparable() {
        let side = |name: &str, number: f64| Side {
            name: name.into(),
            command: String::new(),
            round: Box::new(move || Ok(number)),
        };
        let mut sides = [side("a", 0.2), side("b", 0.0002), side("c", 0.1)];
        let samples = in_turns(&mut sides, 3, Duration::ZERO, |_| {}).unwrap();
        let shown = [0, 1, 2].map(|index| samples[index].comparison(index == 0));
        assert_eq!(shown, ["", "not comparable", "2.00 ×"]);
    }

    #[test]
    fn failed_round_ends_the_measurement() {
        let round = Box::new(|| anyhow::bail!("it printed nothing"));
        let side = Side { name: "x".into(), command: String::new(), round };
        assert!(in_turns(&mut [side], 3, Duration::ZERO, |_| {}).is_err());
    }
}
