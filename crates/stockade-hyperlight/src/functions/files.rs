//! Files: in memory, and in the directories that the policy mounts.

use stockade_wasm::Guest;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, Descriptor, DescriptorFlags, DescriptorStat, HostDescriptor, HostDirectoryEntryStream,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};

use super::{Done, Failed, Function, Parameters};
use crate::values::{Malformed, Reader, Writer};

pub(super) async fn dispatch(
    guest: &mut Guest,
    function: Function,
    parameters: &Parameters<'_>,
) -> Done {
    let mut files = guest.filesystem_view();
    if function == Function::Preopens {
        let all = preopens::Host::get_directories(&mut files)?;
        let list = Writer::new().length(all.len());
        return Ok(all.iter().fold(list, |list, (fd, name)| list.u32(fd.rep()).string(name)));
    }
    let rep = parameters.read(0, Reader::u32)?;
    let fd = Resource::<Descriptor>::new_borrow(rep);
    let text = |at| parameters.read(at, Reader::string);
    let number = |at| parameters.read(at, Reader::u64);
    let how = |at| parameters.read(at, path_flags);
    let nothing = |it: Writer, ()| it;
    match function {
        Function::ReadStream => {
            answer(files.read_via_stream(fd, number(1)?), |it, new| it.u32(new.rep()))
        }
        Function::WriteStream => {
            answer(files.write_via_stream(fd, number(1)?), |it, new| it.u32(new.rep()))
        }
        Function::AppendStream => answer(files.append_via_stream(fd), |it, new| it.u32(new.rep())),
        Function::Advise => {
            let advice = parameters.read(3, advice)?;
            answer(files.advise(fd, number(1)?, number(2)?, advice).await, nothing)
        }
        Function::SyncData => answer(files.sync_data(fd).await, nothing),
        Function::GetFlags => answer(files.get_flags(fd).await, |it, flags| {
            it.u8(bits(&DESCRIPTOR, |flag| flags.contains(flag)))
        }),
        Function::SetSize => answer(files.set_size(fd, number(1)?).await, nothing),
        Function::SetTimes => {
            let (accessed, modified) = (parameters.read(1, stamp)?, parameters.read(2, stamp)?);
            answer(files.set_times(fd, accessed, modified).await, nothing)
        }
        Function::ReadFile => answer(files.read(fd, number(1)?, number(2)?).await, |it, read| {
            it.bytes(&read.0).u8(u8::from(read.1))
        }),
        Function::WriteFile => {
            let bytes = parameters.read(1, Reader::bytes)?;
            answer(files.write(fd, bytes, number(2)?).await, Writer::u64)
        }
        Function::ReadDirectory => {
            answer(files.read_directory(fd).await, |it, new| it.u32(new.rep()))
        }
        Function::Sync => answer(files.sync(fd).await, nothing),
        Function::CreateDirectory => answer(files.create_directory_at(fd, text(1)?).await, nothing),
        Function::Stat => answer(files.stat(fd).await, |it, found| stat(it, &found)),
        Function::StatAt => {
            answer(files.stat_at(fd, how(1)?, text(2)?).await, |it, found| stat(it, &found))
        }
        Function::SetTimesAt => {
            let (accessed, modified) = (parameters.read(3, stamp)?, parameters.read(4, stamp)?);
            answer(files.set_times_at(fd, how(1)?, text(2)?, accessed, modified).await, nothing)
        }
        Function::LinkAt => {
            let new = Resource::new_borrow(parameters.read(3, Reader::u32)?);
            answer(files.link_at(fd, how(1)?, text(2)?, new, text(4)?).await, nothing)
        }
        Function::OpenAt => {
            let open = parameters.read(3, open_flags)?;
            let flags = parameters.read(4, descriptor_flags)?;
            let opened = files.open_at(fd, how(1)?, text(2)?, open, flags).await;
            answer(opened, |it, new| it.u32(new.rep()))
        }
        Function::ReadLink => {
            answer(files.readlink_at(fd, text(1)?).await, |it, target| it.string(&target))
        }
        Function::RemoveDirectory => answer(files.remove_directory_at(fd, text(1)?).await, nothing),
        Function::RenameAt => {
            let new = Resource::new_borrow(parameters.read(2, Reader::u32)?);
            answer(files.rename_at(fd, text(1)?, new, text(3)?).await, nothing)
        }
        Function::SymlinkAt => answer(files.symlink_at(fd, text(1)?, text(2)?).await, nothing),
        Function::Unlink => answer(files.unlink_file_at(fd, text(1)?).await, nothing),
        Function::Hash => answer(files.metadata_hash(fd).await, hash),
        Function::HashAt => answer(files.metadata_hash_at(fd, how(1)?, text(2)?).await, hash),
        Function::NextEntry => {
            let next = files.read_directory_entry(Resource::new_borrow(rep)).await;
            answer(next, |it, entry| match entry {
                Some(entry) => it.u8(1).u32(entry.type_ as u32).string(&entry.name),
                None => it.u8(0),
            })
        }
        _ => Err(Failed::Malformed),
    }
}

/// A result, or the file system's error.
fn answer<T>(result: Result<T, FsError>, write: impl FnOnce(Writer, T) -> Writer) -> Done {
    match result {
        Ok(value) => Ok(write(Writer::new().u8(0), value)),
        Err(error) => Ok(Writer::new().u8(1).u32(error.downcast()? as u32)),
    }
}

const DESCRIPTOR: [DescriptorFlags; 6] = [
    DescriptorFlags::READ,
    DescriptorFlags::WRITE,
    DescriptorFlags::FILE_INTEGRITY_SYNC,
    DescriptorFlags::DATA_INTEGRITY_SYNC,
    DescriptorFlags::REQUESTED_WRITE_SYNC,
    DescriptorFlags::MUTATE_DIRECTORY,
];
const OPEN: [OpenFlags; 4] =
    [OpenFlags::CREATE, OpenFlags::DIRECTORY, OpenFlags::EXCLUSIVE, OpenFlags::TRUNCATE];
const ADVICE: [Advice; 6] = [
    Advice::Normal,
    Advice::Sequential,
    Advice::Random,
    Advice::WillNeed,
    Advice::DontNeed,
    Advice::NoReuse,
];

/// Flags as a byte, the first in the lowest bit.
fn bits<F: Copy>(all: &[F], has: impl Fn(F) -> bool) -> u8 {
    let set = all.iter().enumerate().filter(|(_, flag)| has(**flag));
    set.fold(0, |byte, (at, _)| byte | (1 << at))
}

/// The flags that a byte sets.
fn set<F: Copy>(byte: u8, all: &[F]) -> impl Iterator<Item = F> {
    all.iter().enumerate().filter(move |(at, _)| byte >> at & 1 == 1).map(|(_, flag)| *flag)
}

fn descriptor_flags(it: &mut Reader<'_>) -> Result<DescriptorFlags, Malformed> {
    Ok(set(it.u8()?, &DESCRIPTOR).fold(DescriptorFlags::empty(), |all, flag| all | flag))
}

fn open_flags(it: &mut Reader<'_>) -> Result<OpenFlags, Malformed> {
    Ok(set(it.u8()?, &OPEN).fold(OpenFlags::empty(), |all, flag| all | flag))
}

fn path_flags(it: &mut Reader<'_>) -> Result<PathFlags, Malformed> {
    Ok(match it.u8()? & 1 {
        0 => PathFlags::empty(),
        _ => PathFlags::SYMLINK_FOLLOW,
    })
}

fn advice(it: &mut Reader<'_>) -> Result<Advice, Malformed> {
    let number = usize::try_from(it.u32()?).map_err(|_| Malformed)?;
    ADVICE.get(number).copied().ok_or(Malformed)
}

fn stamp(it: &mut Reader<'_>) -> Result<NewTimestamp, Malformed> {
    match it.u32()? {
        0 => Ok(NewTimestamp::NoChange),
        1 => Ok(NewTimestamp::Now),
        2 => Ok(NewTimestamp::Timestamp(Datetime { seconds: it.u64()?, nanoseconds: it.u32()? })),
        _ => Err(Malformed),
    }
}

fn stat(it: Writer, found: &DescriptorStat) -> Writer {
    let times = [
        &found.data_access_timestamp,
        &found.data_modification_timestamp,
        &found.status_change_timestamp,
    ];
    let head = it.u32(found.type_ as u32).u64(found.link_count).u64(found.size);
    times.into_iter().fold(head, |it, time| match time {
        Some(time) => it.u8(1).u64(time.seconds).u32(time.nanoseconds),
        None => it.u8(0),
    })
}

fn hash(it: Writer, value: MetadataHashValue) -> Writer {
    it.u64(value.lower).u64(value.upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_keep_their_places() {
        for byte in 0..64 {
            let flags = descriptor_flags(&mut Reader::new(&[byte])).unwrap();
            assert_eq!(bits(&DESCRIPTOR, |flag| flags.contains(flag)), byte);
        }
    }

    #[test]
    fn unknown_cases_are_refused() {
        assert!(advice(&mut Reader::new(&6u32.to_le_bytes())).is_err());
        assert!(stamp(&mut Reader::new(&3u32.to_le_bytes())).is_err());
    }
}
