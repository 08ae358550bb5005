package fsm

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// dice decides what a player does next.
type dice interface {
	roll(n int) int // 0 to n-1
	more() bool
}

// seededDice are dice that a seed and a number of rolls describe.
type seededDice struct {
	r    *rand.Rand
	left int
}

func (d *seededDice) roll(n int) int { return d.r.Intn(n) }
func (d *seededDice) more() bool     { d.left--; return d.left >= 0 }

// fuzzDice are dice that a fuzzer writes.
type fuzzDice struct{ b []byte }

func (d *fuzzDice) roll(n int) int {
	if len(d.b) == 0 {
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return int(v) % n
}
func (d *fuzzDice) more() bool { return len(d.b) > 0 }

// player proposes commands that are often, not always, what the state wants next.
type player struct {
	dice
	w       *world
	created int
	at      uint64 // the log index of the last entry
}

func newPlayer(t testing.TB, d dice) *player {
	return &player{dice: d, w: &world{t: t, s: New()}}
}

// next is an entry above the last, with a gap now and then, as Raft has its own
// entries, and once in a while one that outruns the dedupe window.
func (p *player) next() entry {
	p.at++
	switch p.roll(200) {
	case 0:
		p.at += DedupeWindow
	case 1, 2, 3, 4, 5:
		p.at += uint64(p.roll(9))
	}
	actor, body := p.choose()
	if p.roll(40) == 0 {
		actor = "viewer/nobody"
	}
	cmd := envelope(actor, fmt.Sprintf("played %d", p.at), p.at-1, body)
	if ofSite := strings.HasPrefix(actor, "controller/") && p.roll(4) == 0 || isOfRelation(body); p.w.s.level2() && ofSite {
		cmd = through(playedSites[p.roll(2)], cmd)
	}
	if n := len(p.w.log); n > 0 && p.roll(15) == 0 {
		cmd = p.w.log[p.roll(n)].cmd // an old one again, as a retry
	}
	e := entry{p.at, cmd}
	p.w.log = append(p.w.log, e)
	return e
}

func (p *player) choose() (string, proto.Message) {
	const controller, admin = "controller/c1", "admin/ann"
	if p.w.s.Cluster().ID == "" {
		first := bootstrap()
		first.FeatureLevel = 1 + uint32(p.roll(int(MaxFeatureLevel)))
		return admin, first
	}
	switch p.roll(76) {
	case 0, 1:
		r := p.register()
		return "node/" + r.NodeId, r
	case 2:
		n := p.node()
		return controller, &fsmpb.SetNodeReachable{NodeId: string(n.ID), HostId: string(n.Host), Reachable: p.roll(2) == 0}
	case 3:
		n := p.node()
		if p.roll(8) == 0 {
			return admin, &fsmpb.LoseNode{NodeId: string(n.ID), HostId: string(n.Host), Reason: "burnt"}
		}
		return admin, &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: p.w.s.Cluster().Incarnation}
	case 4, 36, 37:
		return p.clusterCommand()
	case 5, 6, 7, 8:
		return controller, p.create()
	case 9:
		return controller, &fsmpb.DeleteVolume{VolumeId: p.volumeID()}
	case 10, 11, 12:
		return controller, p.publish()
	case 13:
		return controller, &fsmpb.UnpublishVolume{VolumeId: p.volumeID()}
	case 14, 15, 16:
		s := p.stage()
		return "node/" + s.NodeId, s
	case 17, 18, 19:
		t := p.publishTarget()
		return "node/" + t.NodeId, t
	case 20:
		return admin, &fsmpb.CancelOperation{OperationId: p.operation()}
	case 21:
		return admin, &fsmpb.RetryOperation{OperationId: p.operation()}
	case 62, 63:
		return p.chooseFence()
	case 22, 23, 24, 25, 26, 27, 28:
		return p.chooseSnapshot()
	case 29, 30, 31, 32, 33, 34, 35:
		r := p.doDesiredSnapshots()
		return "node/" + r.NodeId, r
	case 64, 65:
		return controller, &fsmpb.BeginReclaim{VolumeId: p.volumeID()}
	case 66:
		if p.roll(3) == 0 {
			return admin, p.restoreHeader()
		}
		return controller, &fsmpb.EndReclaim{VolumeId: p.volumeID()}
	case 68, 69, 70, 71, 72, 73, 74, 75:
		if p.w.s.level2() {
			return p.chooseRelation()
		}
	case 67:
		r := p.rotate()
		return "node/" + r.NodeId, r
	}
	if p.roll(2) == 0 {
		return p.chooseReplica()
	}
	r := p.report()
	return "node/" + r.NodeId, r
}

func (p *player) register() *fsmpb.RegisterNode {
	r := register(fmt.Sprintf("n%d", 1+p.roll(3)))
	r.Labels = []*fsmpb.Label{{Key: ZoneKey, Value: "z" + r.NodeId}}
	r.Site = []string{"", "", "", "A"}[p.roll(4)]
	r.BootId = fmt.Sprintf("boot-%d", 1+p.roll(2))
	if n, ok := p.w.s.Node(NodeID(r.NodeId)); ok && n.State == NodeLost || p.roll(12) == 0 {
		generation := p.roll(5)
		r.HostId, r.Pools[0].PoolId = fmt.Sprintf("%s-%d", r.HostId, generation), fmt.Sprintf("%s-%d", r.Pools[0].PoolId, generation)
	} else if ok {
		r.HostId, r.Pools[0].PoolId = string(n.Host), string(n.Pools[0].ID)
	}
	r.Pools[0].CapacityBytes = 1 << 30
	r.MaxVolumes = uint32(p.roll(3)) * 3
	if p.roll(6) > 0 {
		r.Replication = replicating(r.NodeId).Replication
	}
	if p.roll(8) == 0 {
		r.Addresses = []string{fmt.Sprintf("10.0.0.%d", p.roll(5))}
	}
	if p.roll(10) == 0 {
		r.Incarnation = uint64(p.roll(4))
	}
	return r
}

// node is a known one, or one that is not.
func (p *player) node() Node {
	var known []Node
	for n := range p.w.s.Nodes() {
		known = append(known, *n)
	}
	if len(known) == 0 || p.roll(10) == 0 {
		return Node{ID: "unknown", Host: "host-unknown", Boot: "boot-1"}
	}
	return known[p.roll(len(known))]
}

func (p *player) create() *fsmpb.CreateVolume {
	p.created++
	c := create(p.created)
	c.Name = fmt.Sprintf("pvc-%d", p.roll(6))
	switch p.roll(12) {
	case 0:
		c.Fingerprint = bytesOf("others", 32)
	case 1:
		c.Capabilities = append(c.Capabilities, block(writer))
	case 2:
		c.Capabilities = []*fsmpb.Capability{block(multi)}
	case 3:
		c.RequiredBytes, c.LimitBytes = 0, int64(p.roll(3))*gib
	case 4:
		c.Requisite = []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: TopologyKey, Value: "n2"}}}}
	case 5:
		c.Preferred = []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: ZoneKey, Value: "zn3"}}}}
	case 6:
		c.Facts = []*fsmpb.PoolFact{{PoolId: "pool-n1", FreeBytes: int64(p.roll(3)) * gib, Index: p.at / 2}}
	case 7:
		c.VolumeId = p.volumeID()
	case 8:
		c.Capabilities[0].Mode = multi
	case 9, 10:
		p.source(c)
	}
	if p.roll(3) == 0 {
		c.Replicas, c.Protocol = 2, fsmpb.Protocol(p.roll(3))
	}
	if p.roll(12) == 0 {
		c.Limits = &fsmpb.Limits{ReadIops: uint64(p.roll(2))}
	}
	c.Encrypted = p.w.s.level2() && p.roll(4) == 0
	c.EncryptionDiscards = c.Encrypted && p.roll(2) == 0
	return c
}

// volume is a known one, or one that is not.
func (p *player) volume() Volume {
	var known []Volume
	for v := range p.w.s.Volumes("") {
		known = append(known, *v)
	}
	if len(known) == 0 || p.roll(12) == 0 {
		return Volume{ID: VolumeID(volumeID(9999)), Replicas: []Replica{{Node: "n1", Host: "host-n1"}}, Phase: Creating{}}
	}
	return known[p.roll(len(known))]
}

func (p *player) volumeID() string { return string(p.volume().ID) }

func (p *player) operation() uint64 {
	if all := p.operations(); len(all) > 0 && p.roll(8) > 0 {
		return all[p.roll(len(all))]
	}
	return uint64(p.roll(50))
}

func (p *player) publish() *fsmpb.PublishVolume {
	v := p.volume()
	c := &fsmpb.PublishVolume{VolumeId: string(v.ID), NodeId: string(v.Replicas[p.roll(len(v.Replicas))].Node), Capability: mount(writer), ReadOnly: p.roll(8) == 0}
	if len(v.Capabilities) > 0 {
		c.Capability = v.Capabilities[0].pb()
	}
	if p.roll(8) == 0 {
		c.NodeId = string(p.node().ID)
	}
	return c
}

// held is a publication of a volume, made up where there is none.
func (p *player) held() (Volume, Publication, Node) {
	v := p.volume()
	pub := Publication{Node: v.Replicas[p.roll(len(v.Replicas))].Node, Epoch: Epoch{1, p.at}, Capability: Capability{Mode: writer, FSType: ext4}}
	if all := v.Publications(); len(all) > 0 {
		pub = all[0]
	}
	n, ok := p.w.s.Node(pub.Node)
	if !ok {
		n = &Node{ID: pub.Node, Host: "host", Boot: "boot"}
	}
	if p.roll(12) == 0 {
		pub.Epoch.Index--
	}
	return v, pub, *n
}

func (c Capability) pb() *fsmpb.Capability {
	return &fsmpb.Capability{Mode: c.Mode, Block: c.Block, FsType: c.FSType}
}

func (p *player) sequence(v *Volume) uint64 {
	if p.roll(6) == 0 {
		return uint64(p.roll(4))
	}
	return v.Replicas[0].Sequence + 1
}

func (p *player) stage() *fsmpb.StageVolume {
	v, pub, n := p.held()
	path := fmt.Sprintf("/staging/%d", p.roll(8)/7)
	if pub.Reclaim && p.roll(8) > 0 {
		path = ReclaimPath
	}
	return &fsmpb.StageVolume{
		VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Epoch: pub.Epoch.Proto(),
		StagingPath: path, Capability: pub.Capability.pb(), FsUuid: fmt.Sprintf("uuid-%d", p.roll(3)), Sequence: p.sequence(&v),
		LuksUuid: p.luksUUID(&v),
	}
}

func (p *player) publishTarget() *fsmpb.PublishTarget {
	v, pub, n := p.held()
	return &fsmpb.PublishTarget{
		VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Epoch: pub.Epoch.Proto(),
		TargetPath: fmt.Sprintf("/target/%d", p.roll(3)), ReadOnly: p.roll(4) == 0, Capability: pub.Capability.pb(),
		Fingerprint: bytesOf(fmt.Sprint(p.roll(2)), 32), Sequence: p.sequence(&v),
	}
}

func (p *player) report() *fsmpb.Report {
	v, pub, n := p.held()
	r := &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot}
	for range 1 + p.roll(3) {
		o := &fsmpb.Observation{VolumeId: string(v.ID), Epoch: pub.Epoch.Proto()}
		if teardown := v.Teardown(n.Host); teardown != nil && p.roll(2) == 0 {
			o.Epoch = teardown.Epoch.Proto()
		}
		p.observe(o, &v, &pub)
		r.Observations = append(r.Observations, o)
	}
	return r
}

func (p *player) observe(o *fsmpb.Observation, v *Volume, pub *Publication) {
	path := "/staging/0"
	if pub.Staging != nil {
		path = pub.Staging.Path
	}
	target := fmt.Sprintf("/target/%d", p.roll(3))
	if pub.Reclaim && p.roll(2) == 0 {
		o.Sequence = p.sequence(v)
		o.Fact = &fsmpb.Observation_Reclaimed{Reclaimed: &fsmpb.Reclaimed{Known: true, BeforeBytes: 2, AfterBytes: 1, Reason: uint32(p.roll(4))}}
		return
	}
	if s := pub.Staging; s != nil && !s.Done && p.roll(4) > 0 {
		o.Fact = &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: path}}
		if v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING {
			o.Fact = &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: v.Format.FSType, FsUuid: v.Format.FSUUID}}
		}
		if v.Crypt.isBeingMade() && p.roll(2) == 0 {
			o.Fact = &fsmpb.Observation_HeaderMade{HeaderMade: &fsmpb.HeaderMade{LuksUuid: v.Crypt.UUID}}
		}
		return
	}
	if v.Crypt != nil && v.Crypt.Rotation != nil && p.roll(2) == 0 {
		o.Sequence = p.sequence(v)
		o.Fact = &fsmpb.Observation_KeyAdded{KeyAdded: &fsmpb.KeyAdded{Slot: uint32(p.roll(2))}}
		if v.Crypt.Rotation.Added {
			o.Fact = &fsmpb.Observation_KeyDropped{KeyDropped: &fsmpb.KeyDropped{Slot: uint32(p.roll(2))}}
		}
		return
	}
	switch v.Phase.(type) {
	case Creating:
		if p.roll(3) > 0 {
			o.Fact = &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size - int64(p.roll(6)/5)}}
			return
		}
	case Deleting:
		if p.roll(3) > 0 {
			o.Fact = &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}
			return
		}
	}
	if v.isExpanding() && p.roll(2) == 0 || p.roll(10) == 0 {
		p.observeGrowth(o, v)
		return
	}
	switch p.roll(10) {
	case 0:
		o.Fact = &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{Detail: "no file"}}
	case 1:
		o.Fact = &fsmpb.Observation_DevicePresent{DevicePresent: &fsmpb.DevicePresent{SizeBytes: v.Size}}
	case 2, 3:
		o.Fact = &fsmpb.Observation_Formatted{Formatted: &fsmpb.Formatted{FsType: v.Format.FSType, FsUuid: v.Format.FSUUID}}
	case 4, 5:
		o.Fact = &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: path}}
	case 6:
		o.Sequence = p.sequence(v)
		o.Fact = &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}
	case 7:
		o.Fact = &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: target}}
	case 8:
		o.Sequence = p.sequence(v)
		o.Fact = &fsmpb.Observation_TargetGone{TargetGone: &fsmpb.TargetGone{TargetPath: target}}
	case 9:
		if p.roll(2) == 0 {
			o.Fact = &fsmpb.Observation_Condition{Condition: &fsmpb.Condition{Abnormal: p.roll(2) == 0, Message: "slow"}}
			return
		}
		o.Fact = &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "create", Error: "I/O error", Final: p.roll(2) == 0, NoSpace: p.roll(2) == 0}}
	}
}
