package hostcheck

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// The kernel's names of the host's namespaces; the numbers are part of its interface.
const (
	initialPID = "pid:[4026531836]"
	initialUTS = "uts:[4026531838]"
	initialIPC = "ipc:[4026531839]"
)

// namespaces looks at what this process shares with the host; nil where that cannot be seen.
func (g *Gatherer) namespaces() *Namespaces {
	pid := g.link("proc/self/ns/pid")
	if pid == "" {
		return nil
	}
	host := g.link("proc/1/ns/net") // it is the host's where the pid namespace is
	return &Namespaces{
		OwnPID: pid != initialPID, OwnUTS: g.link("proc/self/ns/uts") != initialUTS, OwnIPC: g.link("proc/self/ns/ipc") != initialIPC,
		OwnNet: pid == initialPID && host != "" && g.link("proc/self/ns/net") != host,
	}
}

// link is where a link leads, empty where it cannot be read.
func (g *Gatherer) link(name string) string {
	target, err := os.Readlink(g.path(name))
	if err != nil {
		return ""
	}
	return target
}

// containersLVM is what is known of the host's LVM where the commands here go by a container's configuration; nil: by the host's, or
// nobody can tell.
func (g *Gatherer) containersLVM() *LVM {
	n := g.namespaces()
	switch {
	case n == nil || g.isMounted("/etc/lvm"): // nobody mounts another one there
		return nil
	case n.OwnPID:
		return &LVM{Unseen: true}
	case !g.exists("proc/1/root/etc") || g.same(".", "proc/1/root") || g.same("etc/lvm", "proc/1/root/etc/lvm"):
		return nil
	}
	for _, dir := range []string{"usr/sbin", "usr/bin", "sbin", "bin"} {
		if g.exists("proc/1/root/" + dir + "/lvm") {
			return &LVM{Unseen: true}
		}
	}
	return &LVM{HostHasNone: true}
}

// isMounted tells whether something is mounted at a path, in this process's mount namespace.
func (g *Gatherer) isMounted(path string) bool {
	for line := range strings.Lines(g.text("proc/self/mountinfo")) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}

// same tells whether two names are of one file.
func (g *Gatherer) same(a, b string) bool {
	first, errFirst := os.Stat(g.path(a))
	second, errSecond := os.Stat(g.path(b))
	return errFirst == nil && errSecond == nil && os.SameFile(first, second)
}

// secureBoot is the firmware's variable: four bytes of attributes and one of the value.
const secureBoot = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

// signedOnly tells whether the kernel loads signed modules only.
func (g *Gatherer) signedOnly() bool {
	if g.word("sys/module/module/parameters/sig_enforce") == "Y" {
		return true
	}
	lockdown := g.text("sys/kernel/security/lockdown")
	if strings.Contains(lockdown, "[integrity]") || strings.Contains(lockdown, "[confidentiality]") {
		return true
	}
	value := g.text(secureBoot)
	return len(value) == 5 && value[4] == 1
}

// builtBeside tells whether modules.dep has a module that was not built with the kernel: dkms and others install there.
func builtBeside(dep, name string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(name), "_", "[-_]")
	return regexp.MustCompile(`(?m)^(updates|extra|weak-updates)/(.*/)?` + pattern + `\.ko[.a-z0-9]*:`).MatchString(dep)
}

// multipathSocket is where multipathd listens, in the host's network namespace.
const multipathSocket = "@/org/kernel/linux/storage/multipathd"

// multipathRuns looks at the host, whose /run a pod need not have.
func (g *Gatherer) multipathRuns() bool {
	for _, file := range []string{"run/multipathd.pid", "run/multipathd.socket", "proc/1/root/run/multipathd.pid", "proc/1/root/run/multipathd.socket"} {
		if g.exists(file) {
			return true
		}
	}
	return slices.Contains(strings.Fields(g.text("proc/net/unix")), multipathSocket)
}
