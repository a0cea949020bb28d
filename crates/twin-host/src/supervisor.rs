//! What a supervisor (systemd, or whatever speaks sd_notify(3)) hears of a daemon in the foreground: that it
//! serves, that it is alive, that it ends.
//!
//! Contract: a message is a datagram of lines to the socket that `NOTIFY_SOCKET` names. Without one nothing is sent.
//! Sending neither waits nor fails: a supervisor that has gone is no reason to stop serving.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The one who started this process and wants to hear of it.
pub(crate) struct Supervisor {
    socket: UnixDatagram,
    place: SocketAddr,
    /// How long it waits for a sign of life.
    patience: Option<Duration>,
}

impl Supervisor {
    /// The supervisor that the environment names.
    pub(crate) fn of_environment() -> Option<Supervisor> {
        Supervisor::of(|name| std::env::var(name).ok(), std::process::id())
    }

    fn of(variable: impl Fn(&str) -> Option<String>, pid: u32) -> Option<Supervisor> {
        let name = variable("NOTIFY_SOCKET")?;
        let place = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(&name),
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        // Whoever inherits the variables of its parent is not the one who is waited for.
        let ours = variable("WATCHDOG_PID").is_none_or(|of| of == pid.to_string());
        let patience = variable("WATCHDOG_USEC").filter(|_| ours).and_then(|us| us.parse().ok());
        let patience = patience.filter(|us| *us > 0).map(Duration::from_micros);
        Some(Supervisor { socket, place: place.ok()?, patience })
    }

    /// The process serves; `status` says what, in a line for people.
    pub(crate) fn ready(&self, status: &str) {
        let status = status.replace('\n', " ");
        self.send(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// The process ends.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// The process is alive.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1\n");
    }

    /// The interval of signs of life, if they are waited for: half the patience, as sd_watchdog_enabled(3) advises.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.patience.map(|patience| patience / 2)
    }

    fn send(&self, lines: &str) {
        let _ = self.socket.send_to_addr(lines.as_bytes(), &self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A supervisor at an abstract address, and what it hears.
    fn listening(name: &str) -> UnixDatagram {
        let name = format!("twinfs-{name}-{}", std::process::id());
        let place = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&place).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    fn variables(name: &str, watchdog: (&str, &str)) -> impl Fn(&str) -> Option<String> {
        let place = format!("@twinfs-{name}-{}", std::process::id());
        let (usec, pid) = (watchdog.0.to_string(), watchdog.1.to_string());
        move |variable| match variable {
            "NOTIFY_SOCKET" => Some(place.clone()),
            "WATCHDOG_USEC" => Some(usec.clone()),
            "WATCHDOG_PID" => Some(pid.clone()),
            _ => None,
        }
    }

    #[test]
    fn a_supervisor_hears_in_lines_that_a_daemon_serves_lives_and_ends() {
        let socket = listening("hears");
        let supervisor = Supervisor::of(variables("hears", ("30000000", "7")), 7).unwrap();
        assert_eq!(supervisor.interval(), Some(Duration::from_secs(15)));
        supervisor.ready("disk.img at /srv\nand more");
        supervisor.alive();
        supervisor.stopping();
        let mut heard = Vec::new();
        let mut buf = [0; 100];
        while let Ok(len) = socket.recv(&mut buf) {
            heard.push(String::from_utf8_lossy(&buf[..len]).into_owned());
        }
        let ready = "READY=1\nSTATUS=disk.img at /srv and more\n";
        assert_eq!(heard, [ready, "WATCHDOG=1\n", "STOPPING=1\n"]);
        drop(socket);
        // It is gone: nothing waits or fails.
        supervisor.alive();
    }

    #[test]
    fn signs_of_life_that_another_process_owes_are_not_sent() {
        let other = Supervisor::of(variables("other", ("30000000", "8")), 7).unwrap();
        assert_eq!(other.interval(), None);
        let nonsense = Supervisor::of(variables("nonsense", ("soon", "7")), 7).unwrap();
        assert_eq!(nonsense.interval(), None);
        assert!(Supervisor::of(|_| None, 7).is_none());
    }
}
