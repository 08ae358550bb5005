package fsm

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// simHost is one host's process: what it knows of the log, and what it asked for. It
// knows less than there is, and later.
type simHost struct {
	x            *sim
	i            int
	node, host   string
	boot         int
	session      bool // it reaches the controllers
	wish         *Wish
	gen          uint64 // the generation that it knows
	attach       uint64 // kept on disk
	attached     uint64 // of the attachment that its kernel has
	mayAttach    uint64 // committed
	asked        *flight
	grant        *simGrant
	question     *simQuestion
	sawConnected uint64 // the generation under which it last saw its peer
	sequence     uint64 // kept on disk
	unstages     int
	lost         bool
	careless     bool   // a planted bug: a verdict is used whatever was seen since
	settled      uint64 // remembered by a planted bug
}

// simGrant is a right to be primary that a host holds.
type simGrant struct {
	epoch    Epoch
	attach   uint64
	unstages int
}

// simQuestion is the kernel's, through its handler, or the process's own when the
// handler died.
type simQuestion struct {
	cmd     *fsmpb.Command
	losses  int
	handler bool
	promote bool
}

// flight is a command on its way, for as long as it likes.
type flight struct {
	cmd  *fsmpb.Command
	from *simHost
	boot int
	done func(*fsmpb.Outcome)
}

func (h *simHost) bootID() string  { return fmt.Sprint("boot-", h.boot) }
func (h *simHost) mirror() *mirror { return h.x.k.m[h.i] }

func (h *simHost) leg() *Leg { return h.x.volume().Leg(HostID(h.host)) }

// silent tells whether no controller hears from the host.
func (h *simHost) silent() bool { return !h.session || !h.mirror().up }

// observe looks at the kernel, under the generation that is known already.
func (h *simHost) observe() ReplicaSeen {
	r := h.x.k.seen(h.i)
	r.Boot, r.Attach, r.Generation = h.bootID(), h.attached, h.gen
	if r.Connected() {
		h.sawConnected = h.gen
	}
	return r
}

// sync reads what the log wants now.
func (h *simHost) sync() {
	if !h.session || !h.mirror().up {
		return
	}
	n, _ := h.x.w.s.Node(NodeID(h.node))
	if n.Boot != h.bootID() {
		h.register()
		return
	}
	if w, ok := h.x.w.s.Wish(NodeID(h.node), h.x.id); ok {
		h.wish = &w
		h.gen = max(h.gen, w.Replication.Generation)
		h.attach = max(h.attach, w.Replication.Attach)
	}
}

// send puts a command on its way, when there is a way.
func (h *simHost) send(cmd *fsmpb.Command, done func(*fsmpb.Outcome)) {
	if !h.session || len(h.x.flights) > 12 {
		return
	}
	h.x.flights = append(h.x.flights, &flight{cmd: cmd, from: h, boot: h.boot, done: done})
}

func (h *simHost) command(body proto.Message) *fsmpb.Command {
	h.x.w.calls++
	return envelope("node/"+h.node, fmt.Sprintf("request %d", h.x.w.calls), h.x.w.index, body)
}

func (h *simHost) register() {
	r := replicating(h.node)
	r.BootId = h.bootID()
	h.send(h.command(r), nil)
}

// report tells what is observed, and with it that nothing is open, where that is so.
func (h *simHost) report(unstaged bool, epoch Epoch) {
	r := &fsmpb.Report{NodeId: h.node, HostId: h.host, BootId: h.bootID()}
	r.Observations = append(r.Observations, &fsmpb.Observation{
		VolumeId: string(h.x.id), Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: h.observe().Proto()},
	})
	if unstaged {
		h.sequence++
		r.Observations = append(r.Observations, &fsmpb.Observation{
			VolumeId: string(h.x.id), Epoch: epoch.proto(), Sequence: h.sequence, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}},
		})
	}
	h.send(h.command(r), nil)
}

// act is one step of what the wish asks for, as far as the host may.
func (h *simHost) act() {
	m := h.mirror()
	if !m.up || h.wish == nil {
		return
	}
	w := h.wish.Replication
	switch {
	case h.lost || m.suspended && h.wish.Teardown != nil && h.x.roll(3) == 0 || w.Outdated && (m.primary || m.suspended):
		h.tearDownAsLoser()
	case m.suspended && h.x.roll(3) == 0:
		h.ask(h.x.roll(2) == 0, false)
	case !m.in || m.disk <= diskless:
		h.bringUp()
	case w.Connect == m.standAlone:
		h.reconnect(w)
	case m.suspended:
		h.ask(h.x.roll(2) == 0, false)
	case h.wish.Teardown != nil || h.wish.Publication == nil:
		h.endUse()
	case h.grant != nil && !m.primary:
		h.promote()
	case w.Primary && !m.primary:
		h.askForPrimary()
	case h.x.roll(12) == 0:
		h.unstage(h.wish.Publication.Epoch)
	}
}

// bringUp attaches, after the log heard of it (S5).
func (h *simHost) bringUp() {
	m := h.mirror()
	if h.mayAttach == h.attach && h.attach != 0 {
		m.in = true
		h.attached, h.grant = h.attach, h.keptGrant()
		h.x.k.attach(h.i)
		h.mayAttach = 0
		return
	}
	h.attach++
	number := h.attach
	h.send(h.command(&fsmpb.AttachReplica{VolumeId: string(h.x.id), NodeId: h.node, HostId: h.host, BootId: h.bootID(), Attach: number}), func(*fsmpb.Outcome) {
		h.mayAttach = number
	})
	if h.wish.Teardown != nil && !m.in {
		h.report(true, h.wish.Teardown.Epoch)
	}
}

// keptGrant: a grant is for one attachment.
func (h *simHost) keptGrant() *simGrant { return nil }

// reconnect makes the connection what the wish says; never other than by force (S8).
func (h *simHost) reconnect(w *ReplicaWish) {
	m := h.mirror()
	if !w.Connect {
		m.standAlone = true
		h.x.k.drop()
		return
	}
	m.standAlone, m.discard = false, w.Outdated
}

// endUse makes the replica secondary and says so.
func (h *simHost) endUse() {
	m := h.mirror()
	if m.primary && !h.x.k.setSecondary(h.i) {
		return
	}
	h.grant = nil
	if t := h.wish.Teardown; t != nil {
		h.unstages++
		h.report(true, t.Epoch)
	}
}

// unstage is NodeUnstage: the publication stays.
func (h *simHost) unstage(epoch Epoch) {
	if h.x.k.setSecondary(h.i) {
		h.grant, h.unstages = nil, h.unstages+1
		h.report(true, epoch)
	}
}

// tearDownAsLoser is S9: blocked writes end in errors, none in success.
func (h *simHost) tearDownAsLoser() {
	m := h.mirror()
	if m.disk > diskless {
		h.x.k.failDisk(h.i)
	}
	m.suspended, m.primary, m.in, m.standAlone = false, false, false, true
	h.x.k.drop()
	m.suspended = false
	h.lost, h.question, h.grant, h.mayAttach = false, nil, nil, 0
	h.unstages++
	if h.wish.Teardown != nil {
		h.report(true, h.wish.Teardown.Epoch)
	}
}

func (h *simHost) askForPrimary() {
	p := h.wish.Publication
	attach, unstages := h.attached, h.unstages
	h.send(h.command(&fsmpb.SetPrimary{
		VolumeId: string(h.x.id), NodeId: h.node, HostId: h.host, BootId: h.bootID(), Epoch: p.Epoch.proto(), Seen: h.observe().Proto(),
	}), func(o *fsmpb.Outcome) {
		h.gen = max(h.gen, o.GetGeneration())
		h.grant = &simGrant{epoch: p.Epoch, attach: attach, unstages: unstages}
	})
}

// promote uses a grant: in the attachment that it is for, under the publication it
// knows, and not after it gave it back (S2).
func (h *simHost) promote() {
	p := h.wish.Publication
	if p == nil || p.Epoch != h.grant.epoch || h.grant.attach != h.attached || h.grant.unstages != h.unstages {
		h.grant = nil
		return
	}
	if h.x.k.setPrimary(h.i, false) {
		h.ask(true, true)
	}
}

// ask is the handler's question, or the process's own (S6). One that is on its way is
// repeated with its id.
func (h *simHost) ask(handler, promote bool) {
	if q := h.question; q != nil {
		h.send(q.cmd, h.answered(q))
		return
	}
	q := &simQuestion{losses: h.mirror().losses, handler: handler, promote: promote}
	q.cmd = h.command(&fsmpb.Outdate{
		VolumeId: string(h.x.id), NodeId: h.node, HostId: h.host, BootId: h.bootID(), Generation: h.gen, Seen: h.observe().Proto(),
	})
	h.question = q
	h.send(q.cmd, h.answered(q))
}

func (h *simHost) answered(q *simQuestion) func(*fsmpb.Outcome) {
	return func(o *fsmpb.Outcome) {
		if h.question != q {
			return
		}
		h.question = nil
		switch o.GetVerdict() {
		case fsmpb.Verdict_VERDICT_PEER_OUTDATED:
			h.goOn(q, o.GetGeneration())
		case fsmpb.Verdict_VERDICT_SELF_OUTDATED:
			h.lost = true
		case fsmpb.Verdict_VERDICT_STALE:
			h.sync()
		}
	}
}

// goOn uses a verdict. The kernel ignores its handler when it was connected meanwhile;
// the process itself goes on only if it did not see its peer in that generation (S7).
func (h *simHost) goOn(q *simQuestion, generation uint64) {
	m := h.mirror()
	switch {
	case q.handler && m.losses == q.losses && !h.x.k.connected && q.promote:
		h.x.k.setPrimary(h.i, true)
	case q.handler && m.losses == q.losses && !h.x.k.connected:
		h.x.k.resume(h.i, true)
	case !q.handler && (h.sawConnected < generation || h.careless):
		h.x.k.resume(h.i, false)
	}
	h.gen = max(h.gen, generation)
}

// restart is the process's death: the kernel stays, what was in memory does not.
func (h *simHost) restart() {
	h.wish, h.grant, h.question, h.mayAttach, h.sawConnected, h.lost = nil, nil, nil, 0, 0, false
}

// powerLoss and powerOn are the host's.
func (h *simHost) powerLoss() {
	h.x.k.power(h.i)
	h.restart()
	h.gen, h.attached = 0, 0
}

func (h *simHost) powerOn() {
	if m := h.mirror(); !m.up {
		m.up = true
		h.boot++
		h.register()
	}
}
