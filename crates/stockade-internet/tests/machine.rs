//! The fake internet as seen from its machine, and the host after it ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use stockade_testing::{skipped, within};

/// Runs a Python script on the fake internet; `None`, with the reason on standard error, if this
/// host cannot create one.
fn on_the_internet(script: &str) -> Option<String> {
    let output = run(&["python3", "-c", script]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(125) && errors.starts_with("stockade-internet: ") {
        skipped("internet", &errors);
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).expect("the script prints text"))
}

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockade-internet"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.arg("--").args(words).env_clear().env("PATH", path).output().expect("it starts")
}

const LOOK_UP: &str = "
import socket
def look(name, family=0):
    try:
        found = socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        return error.errno
    return sorted(address[4][0] for address in found)
";

#[test]
fn names_resolve_as_their_zones_define() {
    let script = LOOK_UP.to_owned()
        + "
print(look('files.test'), look('cname-private.test'), look('mixed.test'), look('meta.test'))
print(look('onlysix.test'), look('nat64.test', socket.AF_INET6), look('93-184-5-6.ip.test'))
print(look('one.rebind.test', socket.AF_INET), look('one.rebind.test', socket.AF_INET))
print(look('nowhere.test') == socket.EAI_NONAME, len(look('large.test')))
";
    let Some(output) = on_the_internet(&script) else { return };
    assert_eq!(
        output,
        "['93.184.1.1'] ['10.0.0.5'] ['10.0.0.5', '93.184.1.10'] ['169.254.169.254']\n\
         ['2a0e:5700:1::1'] ['64:ff9b::7f00:1'] ['93.184.5.6']\n\
         ['93.184.1.14'] ['127.0.0.1']\n\
         True 80\n"
    );
}

#[test]
fn long_answer_is_sent_over_tcp() {
    let script = LOOK_UP.to_owned()
        + "
import json, os
look('large.test', socket.AF_INET)
entries = [json.loads(line) for line in open(os.environ['STOCKADE_INTERNET_LOG'])]
print([entry['event'] for entry in entries if entry['server'] == 'dns'])
";
    let Some(output) = on_the_internet(&script) else { return };
    assert_eq!(output, "['query', 'connection', 'query']\n");
}

#[test]
fn certificates_are_trusted_as_on_any_machine() {
    let script = "
import ssl, urllib.request
folder = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
folder.load_verify_locations(capath='/etc/ssl/certs')
bundle = ssl.create_default_context(cafile='/etc/ssl/certs/ca-certificates.crt')
for context in (folder, bundle):
    print(urllib.request.urlopen('https://files.test/', context=context).read().split()[1])
print(urllib.request.urlopen('https://93.184.3.4/', context=bundle).read().split()[1])
";
    let Some(output) = on_the_internet(script) else { return };
    assert_eq!(output, "b'files.test'\nb'files.test'\nb'93.184.3.4'\n");
}

#[test]
fn every_packet_from_the_machine_is_logged() {
    let script = "
import json, os, socket, time
def connect(address, port):
    try:
        socket.create_connection((address, port), 2).close()
    except OSError as error:
        return type(error).__name__
def send(address, port, text, family=socket.AF_INET):
    socket.socket(family, socket.SOCK_DGRAM).sendto(text, (address, port))
print(connect('93.184.8.8', 443), connect('10.9.9.9', 22), connect('93.184.8.8', 81))
send('93.184.8.9', 443, b'quick')
send('2a0e:5700:1::9', 5000, b'six', socket.AF_INET6)
try:
    ping = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    ping.sendto(bytes([8, 0, 0xf7, 0xff, 0, 0, 0, 0]), ('93.184.8.10', 0))
except PermissionError:
    send('93.184.8.10', 1, b'in place of a ping')
wanted = {('tcp', '93.184.8.8:443'), ('tcp', '10.9.9.9:22'), ('tcp', '93.184.8.8:81'),
          ('udp', '93.184.8.9:443'), ('udp', '[2a0e:5700:1::9]:5000')}
pings = {('icmp', '93.184.8.10'), ('udp', '93.184.8.10:1')}
seen = set()
deadline = time.time() + 10
while time.time() < deadline and not (wanted <= seen and pings & seen):
    entries = [json.loads(line) for line in open(os.environ['STOCKADE_INTERNET_LOG'])]
    seen = {(entry['event'], entry['to']) for entry in entries if entry['server'] == 'packet'}
print(wanted - seen, 'seen')
";
    let Some(output) = on_the_internet(script) else { return };
    assert_eq!(output, "None None ConnectionRefusedError\nset() seen\n");
}

#[test]
fn machine_has_no_other_link() {
    let script = "
import os
print(sorted(name for _, name in __import__('socket').if_nameindex()))
print(open('/etc/resolv.conf').read(), end='')
";
    let Some(output) = on_the_internet(script) else { return };
    assert_eq!(output, "['lo', 'wan']\nnameserver 192.168.77.1\n");
}

#[test]
fn exit_code_is_the_commands_and_no_process_is_left() {
    let before = fs::read("/etc/resolv.conf").unwrap();
    // A process that would run for a minute.
    let script = "
import os, subprocess, sys
left = subprocess.Popen(['sleep', '61.5'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(os.path.dirname(os.environ['STOCKADE_INTERNET_LOG']), left.pid)
";
    let Some(output) = on_the_internet(script) else { return };
    let (directory, process) = output.trim().split_once(' ').unwrap();
    let gone =
        || !Path::new(directory).exists() && !Path::new(&format!("/proc/{process}")).exists();
    assert!(within(Duration::from_secs(10), gone), "{output} is left");
    assert_eq!(fs::read("/etc/resolv.conf").unwrap(), before);
    assert_eq!(run(&["sh", "-c", "exit 7"]).status.code(), Some(7));
}
