package scenarios

import (
	"fmt"
	"slices"
)

// broken is a volume, and the host whose disk below it fails: one host in a round.
func (r *randomRun) broken(replicated bool) (*subject, string) {
	if r.brokenHost == "" {
		s := r.anyReplicated()
		r.brokenHost = s.v.hosts[r.rng.IntN(len(s.v.hosts))]
	}
	var on []*subject
	for _, s := range r.subjects {
		if slices.Contains(s.v.hosts, r.brokenHost) && (s.replicated() || !replicated) {
			on = append(on, s)
		}
	}
	return on[r.rng.IntN(len(on))], r.brokenHost
}

// layTable puts another table of device-mapper above a volume's device on a host. The device itself is below it
// under another name.
func (r *randomRun) layTable(s *subject, node, module, table string) {
	r.mustExec(r.t, node, fmt.Sprintf(`set -e; d=%s; modprobe %s; dmsetup table $d >/lab/table-$d; read s l t </lab/table-$d
dmsetup create under-$d </lab/table-$d; dmsetup mknodes under-$d; : >/run/laid-$d
dmsetup suspend --noflush --nolockfs $d; echo "0 $l %s" | dmsetup load $d; dmsetup resume $d
dmsetup table $d | grep -q " ${t%%%% *}" && exit 1; exit 0`, s.v.device(), module, fmt.Sprintf(table, "/dev/mapper/under-"+s.v.device())))
}

// takeTable takes it away again, unless the host was started since.
func (r *randomRun) takeTable(s *subject, node string) {
	if !r.guest(node).Running() {
		return
	}
	r.mustExec(r.t, node, fmt.Sprintf(`set -e; d=%s; [ -e /run/laid-$d ] || exit 0; rm /run/laid-$d
if dmsetup info $d >/dev/null 2>&1; then dmsetup suspend --noflush --nolockfs $d; dmsetup load $d </lab/table-$d; dmsetup resume $d; fi
dmsetup remove --retry under-$d`, s.v.device()))
}

// awaitDiskless waits until the kernel gave the disk up.
func (r *randomRun) awaitDiskless(s *subject, node string) {
	r.awaitKernel(r.t, s.v, node, timeout, "its disk is gone", func(d drbdState) bool { return d.disk == "Diskless" })
}

// failWrites: reads succeed.
func (r *randomRun) failWrites() (string, func()) {
	s, node := r.broken(true)
	r.layTable(s, node, "dm-flakey", "flakey %s 0 0 3600 1 error_writes")
	r.awaitDiskless(s, node)
	return s.v.name + " on " + node, func() { r.takeTable(s, node) }
}

// failReplicaDisk: nothing succeeds.
func (r *randomRun) failReplicaDisk() (string, func()) {
	s, node := r.broken(true)
	r.layTable(s, node, "dm-flakey", "flakey %s 0 0 3600")
	r.awaitDiskless(s, node)
	return s.v.name + " on " + node, func() { r.takeTable(s, node) }
}

func (r *randomRun) slowDisk() (string, func()) {
	s, node := r.broken(false)
	r.layTable(s, node, "dm-delay", fmt.Sprintf("delay %%s 0 %d", 20+r.rng.IntN(200)))
	return s.v.name + " on " + node, func() { r.takeTable(s, node) }
}

func (r *randomRun) hangDisk() (string, func()) {
	s, node := r.broken(false)
	r.mustExec(r.t, node, fmt.Sprintf("set -e; dmsetup suspend --noflush --nolockfs %[1]s; : >/run/hung-%[1]s; dmsetup info %[1]s | grep -q SUSPENDED", s.v.device()))
	return s.v.name + " on " + node, func() {
		if r.guest(node).Running() {
			r.mustExec(r.t, node, fmt.Sprintf("[ -e /run/hung-%[1]s ] || exit 0; dmsetup resume %[1]s", s.v.device()))
		}
	}
}
