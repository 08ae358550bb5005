package sim

import (
	"errors"
	"strings"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// faults is what goes wrong while it may.
type faults struct{ s *Sim }

// faultKinds are the faults that happen by themselves. Each tells whether it did anything.
var faultKinds = []struct {
	name string
	do   func(*faults, *host) bool
}{
	{"mend-links", func(f *faults, _ *host) bool { f.mendLinks(); return true }},
	{"start", (*faults).start},
	{"start", (*faults).start},
	{"restart-controller", func(f *faults, _ *host) bool { return f.restartMember() }},
	{"mend-pools", func(f *faults, _ *host) bool { f.mendPools(); return true }},
	{"kill-process", (*faults).killProcess},
	{"stop-process", (*faults).stopProcess},
	{"power-loss", (*faults).powerLoss},
	{"reboot", (*faults).reboot},
	{"cut-hosts", (*faults).cutHosts},
	{"cut-session", (*faults).cutSession},
	{"cut-session-one-way", (*faults).cutOneWay},
	{"cut-controllers", func(f *faults, _ *host) bool { return f.cutMembers() }},
	{"break-stream", func(f *faults, _ *host) bool { return f.breakStream() }},
	{"kill-controller", func(f *faults, _ *host) bool { return f.killMember() }},
	{"change-leader", func(f *faults, _ *host) bool { return f.changeLeader() }},
	{"pool", (*faults).breakPool},
}

// happen lets one fault happen.
func (f *faults) happen() {
	kind := faultKinds[f.s.tape.pick(len(faultKinds))]
	h := f.s.hosts[f.s.tape.pick(len(f.s.hosts))]
	resyncs := f.s.resyncs()
	if kind.do(f, h) {
		if cuts := kind.name == "cut-hosts" || kind.name == "power-loss" || kind.name == "reboot"; cuts && resyncs > 0 {
			f.s.counts["resync interrupted"]++
		}
		f.s.note("fault %s %s", kind.name, h.name)
		f.s.counts["fault "+kind.name]++
	}
}

// resyncs is how many copies between hosts go on now.
func (s *Sim) resyncs() (n int) {
	for _, e := range s.world.Events() {
		if strings.HasPrefix(e.Name(), "sync") {
			n++
		}
	}
	return n
}

func (f *faults) mendLinks() {
	names := f.names()
	for _, a := range names {
		for _, b := range names {
			f.s.world.Links().Mend(fsm.NodeID(a), fsm.NodeID(b))
		}
	}
}

// names are all ends of links.
func (f *faults) names() []string {
	names := append([]string(nil), f.s.memberNames...)
	for _, h := range f.s.hosts {
		names = append(names, h.name)
	}
	return names
}

func (f *faults) start(h *host) bool {
	switch {
	case h.process != nil:
		return false
	case !h.world.Up():
		h.boot()
	}
	h.start()
	return true
}

func (f *faults) killProcess(h *host) bool {
	if h.process == nil {
		return false
	}
	h.crash()
	return true
}

func (f *faults) stopProcess(h *host) bool {
	if h.process == nil {
		return false
	}
	h.process.stop()
	return true
}

func (f *faults) powerLoss(h *host) bool {
	if !h.world.Up() {
		return false
	}
	h.powerLoss()
	return true
}

func (f *faults) reboot(h *host) bool {
	if !h.world.Up() {
		return false
	}
	h.crash()
	h.world.Reboot()
	return true
}

func (f *faults) cut(a, b string) bool {
	f.s.world.Links().Cut(fsm.NodeID(a), fsm.NodeID(b))
	f.s.world.Links().Cut(fsm.NodeID(b), fsm.NodeID(a))
	return a != b
}

func (f *faults) cutHosts(h *host) bool {
	other := f.s.hosts[f.s.tape.pick(len(f.s.hosts))]
	return other != h && f.cut(h.name, other.name)
}

func (f *faults) cutSession(h *host) bool {
	if f.s.tape.pick(2) == 0 {
		return f.cut(h.name, f.s.memberNames[f.s.tape.pick(len(f.s.memberNames))])
	}
	f.cutFromMembers(h)
	return true
}

// cutFromMembers cuts a host off from all controllers.
func (f *faults) cutFromMembers(h *host) {
	for _, name := range f.s.memberNames {
		f.cut(h.name, name)
	}
}

func (f *faults) cutOneWay(h *host) bool {
	f.s.world.Links().Cut(fsm.NodeID(h.name), fsm.NodeID(f.s.memberNames[f.s.tape.pick(len(f.s.memberNames))]))
	return true
}

func (f *faults) cutMembers() bool {
	names := f.s.memberNames
	a, b := names[f.s.tape.pick(len(names))], names[f.s.tape.pick(len(names))]
	return a != b && f.cut(a, b)
}

// breakStream breaks a session; what its host had sent may arrive later.
func (f *faults) breakStream() bool {
	streams := f.s.net.openStreams()
	if len(streams) == 0 {
		return false
	}
	streams[f.s.tape.pick(len(streams))].breakOff(f.s.tape.pick(2) == 1)
	return true
}

func (f *faults) killMember() bool {
	m := f.s.members[f.s.tape.pick(len(f.s.members))]
	if !m.up() {
		return false
	}
	m.crash()
	return true
}

// restartMember starts a controller that is down, and elects a leader where there is none.
func (f *faults) restartMember() bool {
	for i, m := range f.s.members {
		if !m.up() {
			f.s.members[i] = f.s.startMember(m.name)
			f.s.note("%s starts", m.name)
			break
		}
	}
	return f.s.log.leader == nil && f.changeLeader()
}

func (f *faults) changeLeader() bool {
	m := f.s.members[f.s.tape.pick(len(f.s.members))]
	if !m.up() || m == f.s.log.leader {
		return false
	}
	f.s.log.elect(m)
	return true
}

func (f *faults) breakPool(h *host) bool {
	configs := f.s.options.pools(h.number)
	pool := h.world.Pool(configs[f.s.tape.pick(len(configs))].ID)
	switch f.s.tape.pick(6) {
	case 0:
		pool.SetFullData(true)
		f.s.counts["pool full"]++
	case 1:
		pool.SetFullMetadata(true)
	case 2:
		pool.SetReadErrors(true)
	case 3:
		pool.SetWriteErrors(true)
		f.s.counts["pool errors"]++
	case 4:
		pool.SetHanging(true)
	case 5:
		pool.SetAbsent(true)
	}
	return true
}

func (f *faults) mendPools() {
	for _, h := range f.s.hosts {
		for _, config := range f.s.options.pools(h.number) {
			pool := h.world.Pool(config.ID)
			pool.SetFullData(false)
			pool.SetFullMetadata(false)
			pool.SetReadErrors(false)
			pool.SetWriteErrors(false)
			pool.SetHanging(false)
			pool.SetAbsent(false)
		}
	}
}

var errTool = errors.New("the tool failed")

// goWrong tells whether an event went wrong, instead of happening as it should.
func (f *faults) goWrong(e *event) bool {
	if !f.s.tape.oneIn(2 * f.s.options.faultInterval) {
		return false
	}
	switch {
	case e.gate != nil && e.gate.effect:
		return f.effect(e)
	case e.proposal != nil:
		return f.proposal(e)
	case e.kind == kindMessage:
		return f.breakStream()
	}
	return false
}

// effect has an effect fail before or after it, lie, hang, or end in a crash of its host.
func (f *faults) effect(e *event) bool {
	g := e.gate
	var how string
	switch n := f.s.tape.pick(6); {
	case n == 1 && g.before && mayLie(g.name):
		how = "lies"
		g.go_ <- backendtest.Lie()
	case n == 2 && g.before && mayHang(g.name):
		how = "hangs"
		g.go_ <- backendtest.Stuck()
	case n == 3:
		how = "meets a crash"
		f.s.crashedAt[g.name]++
		g.process.host.crash()
	case n == 4:
		how = "meets a loss of power"
		f.s.crashedAt[g.name]++
		g.process.host.powerLoss()
	default:
		how = "fails"
		g.go_ <- backendtest.Fail(errTool)
	}
	f.s.note("%s %s", e.key, how)
	f.s.counts["fault effect "+how]++
	return true
}

// mayLie: tools that say that they did what they did not. The freezing of a filesystem and the removal
// of a path are calls of the kernel, which does not, nor does one that copies a block, of which the pools compare how much it
// copied; an unmount looks at the mount table until the mount is gone, and limits are read back.
func mayLie(name string) bool {
	switch name {
	case "mount.mount.before", "mount.bind.before":
		return true
	}
	return (strings.HasPrefix(name, "pool.") || strings.HasPrefix(name, "luks.") && !strings.HasPrefix(name, "luks.back-up")) && name != "pool.copy.before"
}

// mayHang: commands that survive being killed.
func mayHang(name string) bool {
	return strings.HasPrefix(name, "mount.") || strings.HasPrefix(name, "pool.") || strings.HasPrefix(name, "luks.")
}

// proposal drops a command, applies it without an answer, or applies it twice.
func (f *faults) proposal(e *event) bool {
	p, l := e.proposal, f.s.log
	var how string
	switch f.s.tape.pick(3) {
	case 0:
		how = "is dropped"
		p.reply(proposalReply{err: errNoQuorum})
	case 1:
		how = "is applied, and its answer is lost"
		l.append(p.cmd)
		p.reply(proposalReply{err: errNoQuorum})
	case 2:
		how = "is duplicated"
		again := &proposal{member: p.member, cmd: p.cmd, done: make(chan proposalReply, 1)}
		l.propose(p)
		l.offer(again)
	}
	f.s.note("%s %s", e.key, how)
	f.s.counts["fault proposal "+how]++
	return true
}
