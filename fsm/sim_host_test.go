package fsm

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// simHost is one host's process: what it knows of the log, which lags, and what it requested.
type simHost struct {
	sim                 *sim
	index               int
	node, host          string
	site                string                // empty: there are no sites
	kept                map[string]keptBlocks // what it kept, by the copy's id
	remakes             bool                  // its peer went back to a kept copy: it is copied wholly (S43)
	boot                int
	session             bool // it reaches the controllers
	desired             *DesiredVolume
	generation          uint64 // the generation that it knows
	attachment          uint64 // kept on disk
	kernelAttachment    uint64 // of the attachment that its kernel has
	committedAttachment uint64 // committed
	grant               *simGrant
	question            *simQuestion
	connectedGeneration uint64 // the generation under which it last saw its peer
	sequence            uint64 // kept on disk
	unstages            int
	selfOutdated        bool
	ignoresGeneration   bool   // a planted bug: a verdict is used whatever was seen since
	plantedInSyncUUID   uint64 // remembered by a planted bug
}

// simGrant is a right to be primary that a host holds.
type simGrant struct {
	epoch      Epoch
	attachment uint64
	unstages   int
	force      bool
}

// simQuestion is a request to outdate the peer: from the kernel's fence-peer handler, or from the
// process itself when the handler died.
type simQuestion struct {
	cmd     *fsmpb.Command
	losses  int
	handler bool
	promote bool
}

// simMessage is a command in flight, delayed arbitrarily.
type simMessage struct {
	cmd  *fsmpb.Command
	from *simHost
	boot int
	done func(*fsmpb.Outcome)
}

func (h *simHost) bootID() string           { return fmt.Sprint("boot-", h.boot) }
func (h *simHost) replica() drbdmodel.State { return h.sim.drbd.Observe(h.index) }

// isUnreachable tells whether no controller hears from the host.
func (h *simHost) isUnreachable() bool { return !h.session || !h.replica().Powered }

// observationOf is what the host reports of its kernel's state.
func observationOf(m drbdmodel.State) ReplicaObservation {
	if !m.InKernel {
		return ReplicaObservation{Unconfigured: true}
	}
	r := ReplicaObservation{Primary: m.Primary, Disk: m.Disk, PeerDisk: m.PeerDisk, UUID: m.Metadata.Current, Suspended: m.Suspended, Connection: m.Connection}
	if m.Disk <= diskless {
		r.UUID = 0
	}
	return r
}

// observe looks at the kernel, under the generation that is known already.
func (h *simHost) observe() ReplicaObservation {
	r := observationOf(h.replica())
	r.Boot, r.Attachment, r.Generation = h.bootID(), h.kernelAttachment, h.generation
	if r.Connected() {
		h.connectedGeneration = h.generation
	}
	return r
}

// refreshDesired reads what the log wants now.
func (h *simHost) refreshDesired() {
	if !h.session || !h.replica().Powered {
		return
	}
	n, _ := h.sim.w.s.Node(NodeID(h.node))
	if n.Boot != h.bootID() || n.State == NodeLost {
		h.register()
		return
	}
	if w, ok := h.sim.w.s.DesiredVolume(NodeID(h.node), h.sim.id); ok {
		h.desired = &w
		h.generation = max(h.generation, w.Replication.Generation)
		h.attachment = max(h.attachment, w.Replication.Attachment)
	}
}

// send puts a command in flight, if the host has a session.
func (h *simHost) send(cmd *fsmpb.Command, done func(*fsmpb.Outcome)) {
	if !h.session || len(h.sim.inFlight) > 12 {
		return
	}
	h.sim.inFlight = append(h.sim.inFlight, &simMessage{cmd: cmd, from: h, boot: h.boot, done: done})
}

func (h *simHost) command(body proto.Message) *fsmpb.Command {
	h.sim.w.calls++
	return envelope("node/"+h.node, fmt.Sprintf("request %d", h.sim.w.calls), h.sim.w.index, body)
}

func (h *simHost) register() {
	r := replicating(h.node)
	r.BootId, r.Site = h.bootID(), h.site
	h.send(h.command(r), nil)
}

// report tells what is observed, and with it that nothing is open, where that is so.
func (h *simHost) report(unstaged bool, epoch Epoch) {
	r := &fsmpb.Report{NodeId: h.node, HostId: h.host, BootId: h.bootID()}
	r.Observations = append(r.Observations, &fsmpb.Observation{
		VolumeId: string(h.sim.id), Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: h.observe().Proto()},
	})
	if unstaged {
		h.sequence++
		r.Observations = append(r.Observations, &fsmpb.Observation{
			VolumeId: string(h.sim.id), Epoch: epoch.Proto(), Sequence: h.sequence, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}},
		})
	}
	h.send(h.command(r), nil)
}

// act takes one step towards the desired state, as far as the host may.
func (h *simHost) act() {
	m := h.replica()
	if !m.Powered || h.desired == nil {
		return
	}
	w := h.desired.Replication
	if h.site != "" && h.actInRelation(w) {
		return
	}
	switch {
	case h.selfOutdated || m.Suspended && h.desired.Teardown != nil && h.sim.roll(3) == 0 || w.Outdated && (m.Primary || m.Suspended):
		h.tearDownAsLoser()
	case m.Suspended && h.sim.roll(3) == 0:
		h.askToOutdatePeer(h.sim.roll(2) == 0, false)
	case !m.InKernel || m.Disk <= diskless:
		h.bringUp()
	case w.DiskFailed != 0 && w.DiskFailed == h.kernelAttachment && !m.Primary && !m.Suspended:
		h.sim.drbd.Down(h.index) // it counts from a later attachment on only (S67)
	case w.Connect == m.StandAlone:
		h.reconnect(w)
	case m.Suspended:
		h.askToOutdatePeer(h.sim.roll(2) == 0, false)
	case h.desired.Teardown != nil || h.desired.Publication == nil:
		h.endUse()
	case h.grant != nil && !m.Primary:
		h.promote()
	case w.Primary && !m.Primary:
		h.askForPrimary()
	case h.sim.roll(12) == 0:
		h.unstage(h.desired.Publication.Epoch)
	}
}

// bringUp attaches after the attachment is committed (S5).
func (h *simHost) bringUp() {
	m := h.replica()
	if h.committedAttachment == h.attachment && h.attachment != 0 {
		h.kernelAttachment, h.grant = h.attachment, h.keptGrant()
		if w := h.desired.Replication; h.remakes && w.DiskFailed != 0 && !w.Force {
			h.sim.drbd.RemakeMetadata(h.index)
			h.remakes = false
		}
		h.sim.drbd.Attach(h.index)
		h.committedAttachment = 0
		return
	}
	h.attachment++
	number := h.attachment
	blank := m.InKernel || h.desired.Replication.DiskFailed != 0 // a host makes the metadata of a failed disk anew
	h.send(h.command(&fsmpb.AttachReplica{VolumeId: string(h.sim.id), NodeId: h.node, HostId: h.host, BootId: h.bootID(), Attach: number, Blank: blank}), func(*fsmpb.Outcome) {
		h.committedAttachment = number
	})
	if h.desired.Teardown != nil && !m.InKernel {
		h.report(true, h.desired.Teardown.Epoch)
	}
}

// keptGrant: a grant is for one attachment.
func (h *simHost) keptGrant() *simGrant { return nil }

// reconnect makes the connection what is desired; it disconnects by force only (S8).
func (h *simHost) reconnect(w *DesiredReplica) {
	if !w.Connect {
		h.sim.drbd.Disconnect(h.index)
		return
	}
	h.sim.drbd.Connect(h.index, w.Outdated)
}

// endUse makes the replica secondary and says so.
func (h *simHost) endUse() {
	m := h.replica()
	if m.Primary && !h.sim.drbd.Demote(h.index) {
		return
	}
	h.grant = nil
	if t := h.desired.Teardown; t != nil {
		h.unstages++
		h.report(true, t.Epoch)
	}
}

// unstage is NodeUnstage: the publication stays.
func (h *simHost) unstage(epoch Epoch) {
	if h.sim.drbd.Demote(h.index) {
		h.grant, h.unstages = nil, h.unstages+1
		h.report(true, epoch)
	}
}

// tearDownAsLoser is S9: blocked writes end in errors, none in success.
func (h *simHost) tearDownAsLoser() {
	h.sim.drbd.Detach(h.index)
	h.sim.drbd.Resume(h.index, false)
	h.sim.drbd.Demote(h.index)
	h.sim.drbd.Disconnect(h.index)
	h.sim.drbd.Down(h.index)
	h.selfOutdated, h.question, h.grant, h.committedAttachment = false, nil, nil, 0
	h.unstages++
	if h.desired.Teardown != nil {
		h.report(true, h.desired.Teardown.Epoch)
	}
}

func (h *simHost) askForPrimary() {
	p := h.desired.Publication
	attach, unstages := h.kernelAttachment, h.unstages
	h.send(h.command(&fsmpb.SetPrimary{
		VolumeId: string(h.sim.id), NodeId: h.node, HostId: h.host, BootId: h.bootID(), Epoch: p.Epoch.Proto(), Seen: h.observe().Proto(),
	}), func(o *fsmpb.Outcome) {
		h.generation = max(h.generation, o.GetGeneration())
		h.grant = &simGrant{epoch: p.Epoch, attachment: attach, unstages: unstages, force: o.GetForce()}
	})
}

// promote uses a grant: in the attachment that it is for, under the publication it
// knows, and not after it gave it back (S2).
func (h *simHost) promote() {
	p := h.desired.Publication
	if p == nil || p.Epoch != h.grant.epoch || h.grant.attachment != h.kernelAttachment || h.grant.unstages != h.unstages {
		h.grant = nil
		return
	}
	if h.grant.force || h.sim.drbd.Promote(h.index, false) == drbdmodel.AsksHandler {
		h.askToOutdatePeer(true, true)
	}
}

// askToOutdatePeer is the handler's request, or the process's own (S6). One in flight is repeated
// with its request id.
func (h *simHost) askToOutdatePeer(handler, promote bool) {
	if q := h.question; q != nil {
		h.send(q.cmd, h.onVerdict(q))
		return
	}
	q := &simQuestion{losses: h.replica().Disconnects, handler: handler, promote: promote}
	q.cmd = h.command(&fsmpb.Outdate{
		VolumeId: string(h.sim.id), NodeId: h.node, HostId: h.host, BootId: h.bootID(), Generation: h.generation, Seen: h.observe().Proto(),
	})
	h.question = q
	h.send(q.cmd, h.onVerdict(q))
}

func (h *simHost) onVerdict(q *simQuestion) func(*fsmpb.Outcome) {
	return func(o *fsmpb.Outcome) {
		if h.question != q {
			return
		}
		h.question = nil
		switch o.GetVerdict() {
		case fsmpb.Verdict_VERDICT_PEER_OUTDATED:
			h.useVerdict(q, o.GetGeneration())
		case fsmpb.Verdict_VERDICT_SELF_OUTDATED:
			h.selfOutdated = true
		case fsmpb.Verdict_VERDICT_STALE:
			h.refreshDesired()
		}
	}
}

// useVerdict uses a verdict. The kernel ignores its handler when it was connected meanwhile;
// the process itself goes on only if it did not see its peer in that generation (S7).
func (h *simHost) useVerdict(q *simQuestion, generation uint64) {
	m := h.replica()
	switch {
	case q.promote && h.grant != nil && h.grant.force && !m.Connected():
		h.promoteByForce()
	case q.handler && m.Disconnects == q.losses && !m.Connected() && q.promote:
		h.sim.drbd.Promote(h.index, true)
	case q.handler && m.Disconnects == q.losses && !m.Connected():
		h.sim.drbd.Resume(h.index, true)
	case !q.handler && (h.connectedGeneration < generation || h.ignoresGeneration):
		h.sim.drbd.Resume(h.index, false)
	}
	h.generation = max(h.generation, generation)
}

// restart restarts the process: the kernel's state stays, what was in memory is lost.
func (h *simHost) restart() {
	h.desired, h.grant, h.question, h.committedAttachment, h.connectedGeneration, h.selfOutdated = nil, nil, nil, 0, 0, false
}

// powerLoss and powerOn are the host's.
func (h *simHost) powerLoss() {
	h.sim.drbd.PowerOff(h.index)
	h.restart()
	h.generation, h.kernelAttachment = 0, 0
}

func (h *simHost) powerOn() {
	if !h.replica().Powered {
		h.sim.drbd.PowerOn(h.index)
		h.boot++
		h.register()
	}
}
