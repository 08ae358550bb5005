package fsm

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S38, S41, S53 to S55: relations of volumes and of a group live between two sites, with what hosts report and what
// becomes of them; every invariant holds, and a member that starts from a dump holds the same state.
func TestRandomRelationHistoriesKeepEveryInvariant(t *testing.T) {
	roles := map[string]int{}
	for seed := range seeds(32) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newTwoSites(t, 3)
			w.readyAt("A", 4, create(4))
			w.okAt("A", createVolumeGroup(1, 2, 3))
			p := &relationPlayer{player: newPlayer(t, &seededDice{r: rand.New(rand.NewSource(int64(seed))), left: 900}), w: w, roles: roles}
			p.player.w, p.player.at, p.created = w.world, w.index, 9
			p.live(restored(t, w.s))
		})
	}
	t.Log(roles)
	if raceEnabled {
		return // so few lives do not meet everything
	}
	for _, want := range []string{"primary A", "primary B", "moving", "nobody", "apart", "reverting", "converting", "cut", "unconverted", "status healthy", "status degraded", "status error", "status unknown"} {
		require.NotZero(t, roles[want], want)
	}
}

// relationPlayer plays what is about relations.
type relationPlayer struct {
	*player
	w     *related
	roles map[string]int
	plan  []func() (string, string, proto.Message) // what is to happen next, in the middle of which anything else may
}

func (p *relationPlayer) live(other *State) {
	for p.more() {
		p.player.at++
		site, actor, body := p.step()
		cmd := through(site, envelope(actor, fmt.Sprintf("life %d", p.player.at), p.player.at-1, body))
		one, two := p.w.s.Apply(p.player.at, cmd), other.Apply(p.player.at, cmd)
		require.True(p.w.t, proto.Equal(one.Outcome, two.Outcome), "%v\n%v\nto %v", one.Outcome, two.Outcome, cmd)
		require.NoError(p.w.t, p.w.s.Check(), "after index %d: %v", p.player.at, cmd)
		require.Equal(p.w.t, p.w.s.Hash(), other.Hash(), "after index %d: %v", p.player.at, cmd)
		p.readAll()
		p.readRelations()
		p.note()
		if p.roll(40) == 0 {
			other = restored(p.w.t, other)
		}
		again := other.Fork()
		before := (&world{s: again}).contents()
		again.Apply(p.player.at+1, cmd)
		require.Equal(p.w.t, before, (&world{s: again}).contents(), "twice left another state than once: %v", cmd)
	}
}

// readRelations asks what orchestrators and operators ask of each relation: nothing of it is called healthy, or ready, while a
// member's replica lacks writes (S40, S51).
func (p *relationPlayer) readRelations() {
	t := p.w.t
	for v := range p.w.s.Volumes("") {
		r := p.w.s.RelationOf(v)
		if r == nil {
			continue
		}
		source := &fsmpb.ReplicationSource{VolumeId: string(v.ID)}
		if v.Relation == nil {
			source = &fsmpb.ReplicationSource{VolumeGroupId: string(p.w.s.GroupOf(v.ID))}
		}
		for _, site := range r.Sites {
			_, _, _ = p.w.s.PromoteHolds(source, site)
			_, _, _ = p.w.s.DemoteHolds(source, site)
			_, _, _ = p.w.s.ClaimEndHolds(source, site)
			ready, why, rej := p.w.s.ResyncReady(source, site)
			require.True(t, !ready || p.isEqual(v), "ready at site %s, and volume %s is not up to date", site, v.ID)
			require.True(t, ready || rej != nil || why != "", "site %s is not ready, and nothing says why", site)
		}
		_, _, _ = p.w.s.EnableHolds(source)
		status, rej := p.w.s.ReplicationStatus(source, r.ReplicationID)
		if rej != nil {
			continue // a member is being changed
		}
		require.True(t, status.Health != ReplicationHealthy || p.isEqual(v), "healthy, and volume %s is not up to date: %v", v.ID, v.Replicas)
		require.Equal(t, status.Health == ReplicationHealthy, status.Message == "", "%s: %q", status.Health, status.Message)
		p.roles["status "+status.Health.String()]++
	}
}

// isEqual tells whether both replicas have everything, as far as recorded.
func (p *relationPlayer) isEqual(v *Volume) bool {
	active := v.ActiveReplicas()
	return len(active) == MaxReplicas && active[0].UpToDate && active[1].UpToDate && !active[0].Outdated && !active[1].Outdated
}

// note counts what is reached.
func (p *relationPlayer) note() {
	for v := range p.w.s.Volumes("") {
		if v.converting() != nil {
			p.roles["converting"]++
		}
		if v.Unconverted != nil {
			p.roles["unconverted"]++
		}
		r := p.w.s.RelationOf(v)
		switch {
		case r == nil:
			continue
		case r.Promoted:
			p.roles["primary "+r.Primary.String()]++
		case r.Move != nil:
			p.roles["moving"]++
		default:
			p.roles["nobody"]++
		}
		if r.Cut != 0 {
			p.roles["cut"]++
		}
		if v.RelationMember.Apart {
			p.roles["apart"]++
		}
		if v.isReverting() {
			p.roles["reverting"]++
		}
	}
}

func (p *relationPlayer) anySite() string { return []string{"A", "B"}[p.roll(2)] }

// step is the site, the actor and the command of what happens next.
func (p *relationPlayer) step() (string, string, proto.Message) {
	if len(p.plan) > 0 && p.roll(8) > 0 {
		next := p.plan[0]
		p.plan = p.plan[1:]
		return next()
	}
	if p.roll(30) == 0 {
		p.planDisaster()
	}
	switch n := p.roll(20); {
	case n < 5:
		return p.role()
	case n < 7:
		return p.use()
	case n < 9:
		return p.hostEvent()
	case n < 10:
		return p.membership()
	}
	actor, body := p.observe()
	return "", actor, body
}

// planDisaster is what chance seldom brings about: a site is used, goes on alone, its peer is copied a part of the way, and the
// site is lost.
func (p *relationPlayer) planDisaster() {
	v, site := p.volume(), p.anySite()
	other := map[string]string{"A": "B", "B": "A"}[site]
	source := &fsmpb.ReplicationSource{VolumeId: string(v.ID)}
	if g := p.w.s.GroupOf(v.ID); g != "" {
		source = &fsmpb.ReplicationSource{VolumeGroupId: string(g)}
	}
	say := func(body proto.Message) func() (string, string, proto.Message) {
		return func() (string, string, proto.Message) { return site, "admin/ann", body }
	}
	for range 2 {
		p.plan = append(p.plan, p.reachable(site, true), p.reachable(other, true))
	}
	p.plan = append(p.plan, say(enable(source, other)), say(resync(source, true)), say(promote(source)))
	ids := []VolumeID{v.ID, volumesBeside(v.ID)}
	for _, id := range ids {
		for range 3 {
			p.plan = append(p.plan, p.at(id, site, p.attachIt), p.at(id, other, p.attachIt), p.at(id, site, p.seesBoth), p.at(id, other, p.seesBoth))
		}
		p.plan = append(p.plan, p.at(id, site, p.publishIt), p.at(id, site, p.grantIt), p.at(id, site, p.isPrimaryNow))
	}
	p.plan = append(p.plan, p.at(v.ID, site, p.asks), p.at(v.ID, site, p.asks))
	for range 3 {
		p.plan = append(p.plan, p.at(v.ID, other, p.keepsIt))
	}
	p.plan = append(p.plan, p.at(v.ID, other, p.isTarget), p.reachable(site, false), p.reachable(site, false))
	if p.roll(2) == 0 {
		p.plan = append(p.plan, p.at(v.ID, other, p.isInterrupted))
	}
	p.plan = append(p.plan, func() (string, string, proto.Message) { return other, "admin/ann", promoteByForce(source) })
}

// volumesBeside is the other member of the group of volumes 2 and 3.
func volumesBeside(id VolumeID) VolumeID {
	if id == VolumeID(volumeID(2)) {
		return VolumeID(volumeID(3))
	}
	return VolumeID(volumeID(2))
}

func (p *relationPlayer) reachable(site string, yes bool) func() (string, string, proto.Message) {
	return func() (string, string, proto.Message) {
		for n := range p.w.s.Nodes() {
			if n.site().String() == site && n.State != NodeLost && (n.State == NodeReachable) != yes {
				return "", "controller/c1", &fsmpb.SetNodeReachable{NodeId: string(n.ID), HostId: string(n.Host), Reachable: yes}
			}
		}
		return p.hostEvent()
	}
}

func (p *relationPlayer) role() (string, string, proto.Message) {
	source := sourceOf([]int{1, 1, 4, 2}[p.roll(4)])
	if p.roll(2) == 0 {
		source = groupSource(1)
	}
	site := p.anySite()
	peer := map[string]string{"A": "B", "B": "A"}[site]
	var body proto.Message
	switch p.roll(24) {
	case 0, 1, 2, 3, 4, 5:
		body = enable(source, peer)
	case 6, 7, 8, 9:
		body = promote(source)
	case 10, 11, 12:
		body = promoteByForce(source)
	case 13, 14, 15:
		body = demote(source)
	case 16, 17:
		body = resync(source, false)
	case 18, 19, 20:
		c := resync(source, true)
		c.DiscardUnkept = p.roll(3) == 0
		body = c
	case 21, 22:
		body = disable(source)
	default:
		v := p.volume()
		c := &fsmpb.CancelConversion{VolumeId: string(v.ID)}
		if v.converting() != nil {
			c.Began = v.converting().Began
		}
		return "", "controller/c1", c
	}
	return site, "admin/ann", body
}

// use publishes at a site, and ends that.
func (p *relationPlayer) use() (string, string, proto.Message) {
	v, site := p.volume(), p.anySite()
	if p.roll(3) == 0 {
		return site, "admin/ann", &fsmpb.UnpublishVolume{VolumeId: string(v.ID)}
	}
	for i := range v.Replicas {
		if p.w.s.siteOf(v.Replicas[i].Node).String() == site {
			return site, "admin/ann", &fsmpb.PublishVolume{VolumeId: string(v.ID), NodeId: string(v.Replicas[i].Node), Capability: mount(writer)}
		}
	}
	return site, "admin/ann", &fsmpb.DeleteVolume{VolumeId: string(v.ID)}
}

func (p *relationPlayer) membership() (string, string, proto.Message) {
	switch p.roll(5) {
	case 0:
		c := createVolumeGroup(2+p.roll(3), 2, 3)
		c.Name = fmt.Sprint("of-", p.roll(2))
		return p.anySite(), "admin/ann", c
	case 1:
		return p.anySite(), "admin/ann", &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1), KeepVolumes: true}
	case 2:
		return p.anySite(), "admin/ann", modifyVolumeGroup(1)
	case 3:
		return p.anySite(), "admin/ann", modifyVolumeGroup(1, []int{2, 3, 4}[p.roll(3):]...)
	}
	return p.anySite(), "admin/ann", modifyVolumeGroup(1, 2, 3)
}

// hostEvent is a host's that goes, comes, is lost, or a restore.
func (p *relationPlayer) hostEvent() (string, string, proto.Message) {
	n := p.node()
	switch k := p.roll(80); {
	case k == 0 && p.roll(3) == 0:
		return "", "admin/ann", &fsmpb.LoseNode{NodeId: string(n.ID), HostId: string(n.Host), Reason: "burnt"}
	case k == 1:
		return "", "admin/ann", &fsmpb.ReplaceIncarnation{Counter: p.w.s.Cluster().Incarnation + 1, IncarnationId: bytesOf(fmt.Sprint(p.player.at), 16)}
	case k < 5:
		return "", "admin/ann", &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: p.w.s.Cluster().Incarnation}
	case k < 9:
		r := replicating(string(n.ID))
		if n.ID == "unknown" {
			r = replicating("n1")
		}
		r.HostId, r.Site, r.BootId = string(n.Host), n.Site, fmt.Sprint("boot-", p.player.at)
		return "", "node/" + r.NodeId, r
	case k < 12:
		v := p.volume()
		r := v.Replicas[p.roll(len(v.Replicas))]
		return "", "controller/c1", &fsmpb.RemoveReplica{VolumeId: string(v.ID), NodeId: string(r.Node), HostId: string(r.Host)}
	case k < 16:
		return "", "controller/c1", &fsmpb.AddReplica{VolumeId: p.volumeID()}
	case k < 18:
		return "", "admin/ann", &fsmpb.ForcePrimary{VolumeId: p.volumeID(), NodeId: string(n.ID), Reason: "flood", PeerDead: p.roll(2) == 0}
	}
	return "", "controller/c1", &fsmpb.SetNodeReachable{NodeId: string(n.ID), HostId: string(n.Host), Reachable: p.roll(3) > 0}
}
