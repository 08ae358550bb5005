package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// simRelation is two sites' orchestrators, which want the volume of a sim here or there, and say so in the order in which the
// real ones do: again and again, late, and both at once.
type simRelation struct {
	wants  [2]bool // its orchestrator wants it primary
	forces [2]bool // its last Promote was refused for want of force
	ends   [2]bool // its last Demote was accepted, and it resynchronises
	forced uint64  // the index of the last forced promotion
	counts map[string]int
}

var simSites = [2]string{"A", "B"}

// newRelationSim is a sim of a volume with one replica at each of two sites.
func newRelationSim(base *world, seed int64, counts map[string]int) *sim {
	x := newSim(base, seed)
	for i, h := range x.hosts {
		h.site = simSites[i]
	}
	x.relation = &simRelation{wants: [2]bool{true, false}, counts: counts}
	return x
}

// settling: nothing; its orchestrators act also while everything is mended.
func (r *simRelation) settling(*sim) bool { return false }

// orchestrate has a site's orchestrator do its next step.
func (r *simRelation) orchestrate(x *sim, i int, faults bool) {
	if faults && x.roll(12) == 0 {
		r.wants[i] = !r.wants[i] // a failover, or somebody's mistake: the other site is not told
	}
	held := x.volume().Publication(NodeID(x.hosts[i].node))
	switch {
	case faults && x.roll(25) == 0:
		r.send(x, i, &fsmpb.DisableReplication{Source: sourceOf(1), Role: r.role(x)}, faults)
	case x.roll(8) == 0 || x.s().RelationOf(x.volume()) == nil:
		r.send(x, i, enable(sourceOf(1), simSites[1-i]), faults)
	case r.wants[i] && x.relationOf().isPrimary(Site(simSites[i])) && held == nil:
		r.send(x, i, &fsmpb.PublishVolume{VolumeId: string(x.id), NodeId: x.hosts[i].node, Capability: mount(writer)}, faults)
	case r.wants[i]:
		out := r.send(x, i, &fsmpb.PromoteReplication{Source: sourceOf(1), Role: r.role(x), Force: r.forces[i]}, faults)
		r.forces[i] = reasonOf(out) == NeedsForce || reasonOf(out) == NotReplicated
	case held != nil:
		r.send(x, i, &fsmpb.UnpublishVolume{VolumeId: string(x.id)}, faults)
	case x.roll(2) == 0 || faults && x.roll(4) == 0:
		r.send(x, i, &fsmpb.DemoteReplication{Source: sourceOf(1), Role: r.role(x)}, faults)
	default:
		r.send(x, i, &fsmpb.ResyncReplication{Source: sourceOf(1), Role: r.role(x), Force: true}, faults)
	}
}

func (r *simRelation) role(x *sim) uint64 { return x.s().ReplicationRole(sourceOf(1)) }

func (x *sim) s() *State { return x.w.s }

func (x *sim) relationOf() *Relation {
	if r := x.w.s.RelationOf(x.volume()); r != nil {
		return r
	}
	return &Relation{Sites: []Site{"A", "B"}}
}

// send decides a site's command now, or has it come late, after others.
func (r *simRelation) send(x *sim, i int, body proto.Message, faults bool) *fsmpb.Outcome {
	x.w.calls++
	cmd := through(simSites[i], envelope("controller/c"+simSites[i], fmt.Sprintf("request %d", x.w.calls), x.w.index, body))
	if faults && x.roll(10) == 0 {
		x.lateMessages = append(x.lateMessages, &simMessage{cmd: cmd, from: x.hosts[i]})
		return &fsmpb.Outcome{}
	}
	return x.apply(cmd)
}

// judge says what must not be of what was decided.
func (r *simRelation) judge(x *sim, cmd *fsmpb.Command, out *fsmpb.Outcome) {
	if err := x.w.s.checkRelations(); err != nil {
		x.fail(err.Error())
	}
	if len(out.GetGivenUp()) > 0 {
		r.forced = x.w.index
		r.counts["forced"]++
		if out.GetGivenUp()[0].GetRevertedTo() != "" {
			r.counts["reverted"]++
			for _, h := range x.hosts {
				h.remakes = h.site != cmd.GetSite()
			}
		}
	}
	if cmd.GetSetPrimary() != nil && Err(out) == nil && out.GetForce() {
		r.counts["granted by force"]++
		if r.forced == 0 {
			x.fail("a disk was promoted by force, and what was given up is not recorded")
		}
	}
	if cmd.GetPromoteReplication() != nil && Err(out) == nil {
		r.counts["promoted"]++
	}
	v := x.volume()
	if held := v.Publications(); len(held) > 0 && x.w.s.PrimaryHost(v) != "" && x.w.s.PrimaryHost(v) != held[0].Host {
		x.fail("a host has a grant, and another one the volume")
	}
}

// judgeDisks says what must not become of the disks: what was given up by force stays until a resynchronisation is forced.
func (r *simRelation) judgeDisks(x *sim) {
	m := x.volume().RelationMember
	if m == nil || !m.Apart {
		return
	}
	i := 0
	if m.ApartAt == "B" {
		i = 1
	}
	r.counts["apart"]++
	if x.drbd.SyncTarget() == i {
		x.fail("what was given up by force is overwritten, and nobody decided that")
	}
}

// actInRelation takes a host's step that only replication between sites asks for.
func (h *simHost) actInRelation(w *DesiredReplica) bool {
	m := h.replica()
	switch {
	case w.Apart, w.RevertTo != "":
		if m.Primary || m.Suspended {
			h.tearDownAsLoser()
		} else if m.InKernel {
			h.sim.drbd.Disconnect(h.index)
			h.sim.drbd.Down(h.index)
			h.committedAttachment, h.grant = 0, nil
			h.report(false, Epoch{})
		} else if t := h.desired.Teardown; t != nil {
			h.report(true, t.Epoch)
		} else if w.RevertTo != "" {
			h.revert(string(w.RevertTo))
		} else if h.sim.roll(3) == 0 {
			h.report(false, Epoch{})
		}
		return true
	case w.KeepDue && (m.Disk > diskless || !m.InKernel) && h.sim.roll(2) == 0 && !m.Primary && !m.Suspended:
		h.keep()
		return true
	}
	return false
}

// keptBlocks is a copy of what a disk had, and whether that was whole.
type keptBlocks struct {
	drbdmodel.Blocks
	whole bool
}

// keep takes a copy once it is recorded, and reports it.
func (h *simHost) keep() {
	h.sim.w.calls++
	id := snapshotID(h.sim.w.calls)
	h.send(h.command(&fsmpb.KeepReplica{
		VolumeId: string(h.sim.id), NodeId: h.node, HostId: h.host, BootId: h.bootID(), Attach: max(1, h.attachment), SnapshotId: id, BeforeSync: true,
	}), func(o *fsmpb.Outcome) {
		if o.GetSnapshotId() == "" {
			return
		}
		if h.kept == nil {
			h.kept = map[string]keptBlocks{}
		}
		if _, taken := h.kept[o.GetSnapshotId()]; !taken {
			h.kept[o.GetSnapshotId()] = keptBlocks{h.sim.drbd.Content(h.index), h.replica().Metadata.Consistent}
		}
		h.send(h.command(&fsmpb.Report{NodeId: h.node, HostId: h.host, BootId: h.bootID(), Observations: []*fsmpb.Observation{{
			VolumeId: string(h.sim.id), SnapshotId: o.GetSnapshotId(),
			Fact: &fsmpb.Observation_SnapshotKept{SnapshotKept: &fsmpb.SnapshotKept{Attach: max(1, h.attachment), PoolId: "pool-" + h.node, CutUnixNano: int64(h.sim.w.index)}},
		}}}), nil)
	})
}

// revert makes the device what it was when the copy was taken. It is repeated until that is recorded.
func (h *simHost) revert(id string) {
	content, taken := h.kept[id]
	if !taken {
		h.sim.fail("a host is to go back to a copy that it did not take")
		return
	}
	if !content.whole {
		h.sim.fail("a host goes back to a copy of a part of the content")
	}
	h.sim.drbd.Revert(h.index, content.Blocks)
	h.send(h.command(&fsmpb.Report{NodeId: h.node, HostId: h.host, BootId: h.bootID(), Observations: []*fsmpb.Observation{{
		VolumeId: string(h.sim.id), Fact: &fsmpb.Observation_ReplicaReverted{ReplicaReverted: &fsmpb.ReplicaReverted{SnapshotId: id}},
	}}}), nil)
}

// promoteByForce uses a grant that rests on a decision. What its disk lacks is given up.
func (h *simHost) promoteByForce() {
	h.sim.drbd.GiveUp(h.index)
	h.sim.drbd.ForcePrimary(h.index)
}

// settled: one site's orchestrator wants the volume, and it is used there, with both replicas up to date.
func (x *sim) settledRelation() bool {
	r := x.relationOf()
	i := x.relation.only()
	return r.isPrimary(Site(simSites[i])) && x.healthy() && x.w.s.isBothUpToDate(x.volume())
}

// needsOperator: each of the replicas lacks content, as a disk failed beside one that its peer went on without (S67).
func (x *sim) needsOperator() bool {
	v := x.volume()
	a, b := v.ActiveReplicas()[0], v.ActiveReplicas()[1]
	return x.w.s.neitherIsASource(v, a, b) && (a.DiskFailed != 0 || b.DiskFailed != 0) || x.w.s.waitInVain(v, a)
}

// only is the site whose orchestrator alone wants the volume.
func (r *simRelation) only() int {
	if r.wants[0] {
		return 0
	}
	return 1
}

// healRelation mends everything, and has the orchestrators agree: first that the site that has the role keeps it, or that
// none has it, so that one that lost it learns that, then on either of them.
func (x *sim) healRelation() {
	i := x.roll(2)
	r := x.relationOf()
	x.relation.wants = [2]bool{r.isPrimary("A"), r.isPrimary("B")}
	if m := r.Move; m != nil {
		x.relation.wants = [2]bool{m.To == "A", m.To == "B"}
	}
	x.drbd.SetLink(true)
	for _, h := range x.hosts {
		h.session = true
		h.powerOn()
	}
	for k := range 12000 {
		if k == 3000 {
			x.relation.wants = [2]bool{i == 0, i == 1}
		}
		if r := x.volume().Replication.Revert; r != nil && k == 7000 { // only there is the content that was decided on
			i = x.hostIndex(string(r.Host[len("host-"):]))
			x.relation.wants = [2]bool{i == 0, i == 1}
		}
		if k > 7000 && x.roll(200) == 0 && x.needsOperator() { // a disk failed, and the other replica was given up
			x.relation.counts["operator"]++
			x.relation.forced = x.w.index
			x.w.calls++
			x.apply(envelope("admin/ann", fmt.Sprintf("request %d", x.w.calls), x.w.index, &fsmpb.ForcePrimary{VolumeId: string(x.id), NodeId: x.hosts[i].node, Reason: "nobody else"}))
		}
		x.step(false)
		x.relation.judgeDisks(x)
		if x.broken() != "" || k >= 3000 && x.settledRelation() {
			return
		}
	}
	x.fail("everything was mended and the volume is not in use where it is wanted, with both replicas up to date")
}

func (x *sim) runRelation(steps int) string {
	for range steps {
		x.step(true)
		x.relation.judgeDisks(x)
		if x.broken() != "" {
			return x.broken()
		}
	}
	if err := x.w.s.Check(); err != nil {
		return err.Error()
	}
	x.healRelation()
	return x.broken()
}

// relationSeeds is how many orders of events between two sites are played at most.
const relationSeeds = 300

// S5 to S10, S38, S42, S44, S47, S48 and S51 of one volume between two sites: no acknowledged write is lost that was not given up in a record,
// what was given up stays until it is decided about, and at the end all is up to date where it is wanted.
func TestS38_S42_S44_S48_NoWriteIsLostBetweenTwoSites(t *testing.T) {
	counts := map[string]int{}
	base := simRelationBase(t)
	for seed := *simFirst; seed < *simFirst+seeds(min(*simSeeds, relationSeeds)); seed++ {
		x := newRelationSim(base, int64(seed), counts)
		if broken := x.runRelation(steps); broken != "" {
			again := newRelationSim(base, int64(seed), map[string]int{})
			again.tracing = true
			again.runRelation(steps)
			for _, line := range again.trace {
				t.Log(line)
			}
			t.Fatalf("seed %d: %s", seed, broken)
		}
		counts["split brain"] += x.drbd.SplitBrains()
	}
	t.Log(counts)
	if seeds(relationSeeds) < relationSeeds {
		return // too few to have seen all
	}
	for _, want := range []string{"promoted", "forced", "granted by force", "apart"} {
		require.NotZero(t, counts[want], want)
	}
}

// simRelationBase is volume 1 with one replica on n1 at site A and one on n2 at site B, replicated between them.
func simRelationBase(t testing.TB) *world {
	w := &related{&sites{world: newWorldAt(t, MaxFeatureLevel)}}
	w.world = &world{t: t, s: New()}
	w.ok("controller/c1", bootstrap())
	for i, node := range []string{"n1", "n2"} {
		r := replicating(node)
		r.Site = simSites[i]
		w.ok("node/"+node, r)
		w.ok("controller/c"+simSites[i], registerMember("c"+simSites[i], simSites[i]))
	}
	w.at("A", func(actor string) { w.readyReplicatedBy(actor, 1, createAtTwoSites(1)) })
	w.okAt("A", enable(sourceOf(1), "B"))
	return w.world
}
