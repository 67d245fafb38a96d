//! Findings after what intervals alone say: an intervention outweighs a comparison of durations.

use profile::{BlockScore, CauseKind, SoloBlock, SoloReport, SoloVerdict, Standing};

/// Least part of the threads' time that a listed function loses in itself.
const LISTED: f64 = 0.01;

/// Gives findings their losses by intervention and a standing that says the same, those first that the program loses most by.
pub(super) fn follow_solo(solo: &SoloReport, findings: &mut [BlockScore]) {
    if solo.verdict == SoloVerdict::NotMeasured {
        return;
    }
    for finding in findings.iter_mut() {
        let of = |row: &&SoloBlock| row.name == finding.name && row.image == finding.image;
        let row = solo.blocks.iter().find(|row| of(row) && row.lock.is_none());
        finding.solo = row.map(|row| row.loss);
        let is_lost = solo.verdict == SoloVerdict::Interference;
        match row.filter(|row| is_lost && row.loss.is_claimed) {
            Some(row) => claim_loss(row, finding),
            None => withdraw_loss(solo.verdict, row.is_some(), finding),
        }
    }
    let loses = |finding: &BlockScore| match finding.score.standing {
        Standing::Interference => finding.score.program.estimate,
        _ => 0.0,
    };
    findings.sort_by(|a, b| {
        let standing = a.score.standing.cmp(&b.score.standing);
        standing.then_with(|| loses(b).total_cmp(&loses(a)))
    });
}

/// Says that threads lose in a function what they do not lose alone.
fn claim_loss(row: &SoloBlock, finding: &mut BlockScore) {
    let score = &mut finding.score;
    if row.loss.loss.estimate < LISTED {
        // Callees that are traced lose it.
        if score.standing == Standing::Interference {
            score.standing = Standing::Slight;
        }
        return;
    }
    // Time without a CPU because of other processes is in no loss by intervention.
    let by_machine = |kind| matches!(kind, CauseKind::OtherProcesses | CauseKind::Throttle);
    let causes = &mut finding.causes;
    causes.retain(|cause| cause.measured && !by_machine(cause.kind));
    score.standing = Standing::Interference;
    score.same_as = None;
    score.hindered = row.loss.loss.estimate;
    score.program = row.loss.loss;
}

/// Says nothing of a loss that is not there alone. That threads wait for each other the scheduler saw.
fn withdraw_loss(verdict: SoloVerdict, is_known: bool, finding: &mut BlockScore) {
    if finding.score.standing != Standing::Interference {
        return;
    }
    let waited = finding.breakdown.blocked >= 0.5 * finding.score.sci.estimate;
    let depends = match verdict {
        SoloVerdict::Dependence => waited,
        SoloVerdict::Interference => waited && !is_known,
        _ => false,
    };
    finding.score.hindered = 0.0;
    finding.score.standing = match depends {
        true => Standing::ForWork,
        false => Standing::Varies,
    };
}
