//! QEMU's command line. Pure.

use stockade_wire::MACHINE_DISK;

use crate::Accelerator;
use crate::jail::{DISK, IMAGE, INITRAMFS};

/// The program, as the wall around it finds it.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// The kernel's command line. A panic ends the machine; the first process is the guest.
const KERNEL: &str = "console=ttyS0 quiet panic=-1 mitigations=off -- machine";

/// What a command line depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) accelerator: Accelerator,
    pub(crate) memory_mib: u64,
    pub(crate) cpus: u64,
    /// The size of QEMU's buffer for translated code.
    pub(crate) translation_mib: u64,
    /// Whether the root is a disk of the caller.
    pub(crate) has_own_disk: bool,
}

/// How QEMU starts a machine. Its devices are the same in all ways, so that the state of one fits
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It boots.
    Boot,
    /// It boots, and a monitor listens at [`PORT`]. No program runs in such a machine.
    BootWithMonitor,
    /// It continues with the state that arrives at [`PORT`].
    Continue,
}

/// What a drive's file is and does. The image is never written: changes go to a file that QEMU removes
/// as soon as it is open. If that is full, programs get the error; QEMU's default is to pause the
/// whole machine, which then neither works nor ends.
const DRIVE: &str = "if=virtio,snapshot=on,werror=report,rerror=report";

/// The port of the loopback interface in QEMU's own network namespace.
pub(crate) const PORT: u16 = 7000;

/// The words of the command.
pub(crate) fn command(machine: &Machine, begin: Begin) -> Vec<String> {
    let mut words: Vec<String> = vec![QEMU.to_owned()];
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    add(&["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none"]);
    add(&["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]);
    add(&["-machine", "pc,usb=off,vmport=off,smbus=off"]);
    match machine.accelerator {
        Accelerator::Kvm => add(&["-accel", "kvm", "-cpu", "host"]),
        // QEMU 7.2 corrupts the flags of a 16-byte compare-and-exchange; without that instruction
        // kernels use another way.
        Accelerator::Tcg => {
            let buffer = format!("tcg,thread=multi,tb-size={}", machine.translation_mib);
            add(&["-accel", &buffer, "-cpu", "max,-cx16"]);
        }
    }
    add(&["-smp", &machine.cpus.to_string(), "-m", &machine.memory_mib.to_string()]);
    let address = format!("tcp:127.0.0.1:{PORT}");
    match begin {
        Begin::Boot => {}
        Begin::BootWithMonitor => add(&["-qmp", &format!("{address},server=on,wait=off")]),
        Begin::Continue => add(&["-incoming", &address]),
    }
    if begin != Begin::Continue {
        let words = match machine.has_own_disk {
            true => format!("{KERNEL} {MACHINE_DISK}"),
            false => KERNEL.to_owned(),
        };
        add(&["-kernel", &format!("{IMAGE}/kernel"), "-initrd", INITRAMFS, "-append", &words]);
    }
    if machine.has_own_disk {
        add(&["-drive", &format!("file={DISK},format=qcow2,{DRIVE}")]);
    }
    add(&["-drive", &format!("file={IMAGE}/root.squashfs,format=raw,{DRIVE}")]);
    // The console is standard error, and the stream to the guest is the other two.
    add(&["-chardev", "file,id=console,path=/dev/stderr", "-serial", "chardev:console"]);
    add(&["-device", "virtio-serial-pci,max_ports=2"]);
    add(&["-chardev", "stdio,id=link,signal=off"]);
    let port = stockade_wire::MACHINE_PORT;
    add(&["-device", &format!("virtserialport,chardev=link,name={port}")]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        accelerator: Accelerator::Tcg,
        memory_mib: 640,
        cpus: 2,
        translation_mib: 128,
        has_own_disk: false,
    };

    #[test]
    fn machine_has_no_network_no_default_devices_and_a_throw_away_disk() {
        let words = command(&MACHINE, Begin::Boot).join(" ");
        for part in [
            "-nodefaults",
            "-no-user-config",
            "-nic none",
            "-sandbox on,",
            "spawn=deny",
            "-m 640",
            "-smp 2",
            "root.squashfs,format=raw,if=virtio,snapshot=on,werror=report,rerror=report",
            "-accel tcg",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert_eq!(words.matches("-drive").count(), 1);
    }

    #[test]
    fn disk_of_the_caller_is_the_first_and_written_to_a_throw_away_file() {
        let words = command(&Machine { has_own_disk: true, ..MACHINE }, Begin::Boot).join(" ");
        let own = words.find("file=/disk.qcow2,format=qcow2,if=virtio,snapshot=on").unwrap();
        assert_eq!(words.matches("werror=report").count(), 2, "{words}");
        assert!(own < words.find("root.squashfs").unwrap(), "{words}");
        assert_eq!(words.matches("snapshot=on").count(), 2, "{words}");
        assert!(words.contains("-- machine disk"), "{words}");
    }

    #[test]
    fn only_a_machine_without_programs_has_a_monitor_and_all_have_the_same_devices() {
        let words = |begin| command(&Machine { accelerator: Accelerator::Kvm, ..MACHINE }, begin);
        let devices = |begin| {
            let words = words(begin);
            let from = words.iter().position(|word| word == "-drive").unwrap();
            words[from..].to_vec()
        };
        assert!(words(Begin::Boot).join(" ").contains("-accel kvm -cpu host"));
        for begin in [Begin::Boot, Begin::BootWithMonitor, Begin::Continue] {
            let has_monitor = words(begin).iter().any(|word| word.contains("qmp"));
            assert_eq!(has_monitor, begin == Begin::BootWithMonitor);
            assert_eq!(devices(begin), devices(Begin::Boot));
        }
    }
}
