//! `stockade doctor`.

mod answer;
mod apparmor;
mod kernel;
mod kvm;
mod machine;
mod one_wall;
mod text;
mod walls;

use serde_json::json;
use stockade_backends::{HostLook, Surroundings};

use crate::args::DoctorArgs;
use crate::render::{self, Output};
use crate::run::account::{Account, ORDINARY};
use crate::{ERROR, Problem, image, load};

pub(crate) fn run(args: &DoctorArgs, output: Output) -> anyhow::Result<u8> {
    if args.try_kvm {
        render::json(&kvm::try_here())?;
        return Ok(0);
    }
    if args.apparmor_profile {
        return profile(output);
    }
    if let Some(name) = &args.provider {
        return one_wall::run(name, output);
    }
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let user = rustix::process::getuid().as_raw();
    let surroundings = Surroundings::from_variables(|name| std::env::var_os(name), here, user);
    // Each part has its own deadline; they run concurrently.
    let (facts, containers, host, kvm) = std::thread::scope(|scope| {
        let kvm = scope.spawn(kvm::find_out);
        let facts = scope.spawn(load::host_facts);
        let containers = scope.spawn(load::container_look);
        let host = HostLook::look(&surroundings);
        (facts.join(), containers.join(), host, kvm.join().unwrap_or(kvm::Kvm::Silent))
    });
    let facts = facts.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let containers = containers.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let machines = stockade_backends::machine_look();
    // Measuring takes a machine of its own.
    let is_measured = (args.verbose || output == Output::Json)
        && facts
            .walls
            .iter()
            .any(|wall| wall.provider.as_str() == "hyperlight" && wall.unusable.is_none());
    let hyperlight = load::waited(stockade_backends::hyperlight_look(is_measured))?;
    let answer = answer::answer(&facts);
    let walls = walls::walls(&facts, stockade_backends::is_built_in);
    let account = Account::look(ORDINARY);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    let old_images = match image::images() {
        Ok(images) => image::old(&images, now),
        Err(problem) => vec![problem.to_string()],
    };
    let old_kernel = kernel::warning(&host.kernel, &answer);
    match output {
        Output::Json => render::json(&json!({
            "can_run": answer,
            "walls": walls,
            "machine": {
                "host": host,
                "kvm": kvm,
                "account": machine::account_view(&account),
                "containers": containers.map(|look| look.data),
                "machines": machines.1,
                "hyperlight": hyperlight.map(|look| look.1),
                "image_warnings": old_images,
                "kernel_warning": old_kernel,
            },
        }))?,
        Output::Text => {
            let mut machine = machine::lines(&host, &kvm, &account);
            machine.extend(containers.into_iter().flat_map(|look| look.lines));
            machine.extend(machines.0);
            machine.extend(hyperlight.into_iter().flat_map(|look| look.0));
            let text = match args.verbose {
                true => text::text(&answer, &walls, &machine),
                false => text::verdicts(&answer, &walls),
            };
            render::text(&text)?;
            for line in old_kernel.iter().chain(&old_images) {
                render::talk(&format!("warning: {line}"));
            }
        }
    }
    Ok(if answer.is_empty() { ERROR } else { 0 })
}

fn profile(output: Output) -> anyhow::Result<u8> {
    let program = std::env::current_exe().map_err(|error| {
        let message = format!("cannot tell where this program is: {error}");
        Problem::new(message, "see that /proc is mounted")
    })?;
    let profile = apparmor::profile(&program);
    match output {
        Output::Json => render::json(&json!({ "profile": profile }))?,
        Output::Text => render::text(&profile)?,
    }
    Ok(0)
}
