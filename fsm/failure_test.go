package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// impactOn is what a failure does to volume n.
func (w *world) impactOn(n int, f Failure) (Impact, string) {
	w.t.Helper()
	before := w.s.Hash()
	first, second := w.s.IfStopped(f), w.s.IfStopped(f)
	require.Equal(w.t, first, second)
	require.Equal(w.t, before, w.s.Hash(), "it only reads")
	for _, v := range first.Volumes {
		if v.Volume.ID == VolumeID(volumeID(n)) {
			return v.Impact, v.Reason
		}
	}
	return ImpactNone, ""
}

// suspendedObservation is what a primary observes that waits for a verdict.
func suspendedObservation(disk fsmpb.DiskState) ReplicaObservation {
	return ReplicaObservation{Disk: disk, Connection: connecting, UUID: 7, Primary: true, Suspended: true}
}

func TestWhatAFailureDoesToAVolume(t *testing.T) {
	n1, n2, nobody := Failure{Nodes: []NodeID{"n1"}}, Failure{Nodes: []NodeID{"n2"}}, Failure{NoQuorum: true}
	both := Failure{Nodes: []NodeID{"n1", "n2"}}
	n1AndQuorum, n2AndQuorum := n1, n2
	n1AndQuorum.NoQuorum, n2AndQuorum.NoQuorum = true, true
	for name, tc := range map[string]struct {
		protocol fsmpb.Protocol
		given    func(*world)
		failure  Failure
		want     Impact
		says     string
	}{
		"one of two that nobody uses":              {failure: n1, want: ImpactDegraded, says: "1 of 2 replicas are left"},
		"both":                                     {failure: both, want: ImpactLost, says: "no other copy is left"},
		"a primary with a whole peer":              {given: func(w *world) { w.primary(1, "n1", 7) }, failure: n1, want: ImpactDegraded},
		"the peer of a primary":                    {given: func(w *world) { w.primary(1, "n1", 7) }, failure: n2, want: ImpactDegraded},
		"the peer, and no quorum":                  {given: func(w *world) { w.primary(1, "n1", 7) }, failure: n2AndQuorum, want: ImpactFrozen, says: "a verdict that no quorum gives"},
		"a primary, and no quorum":                 {given: func(w *world) { w.primary(1, "n1", 7) }, failure: n1AndQuorum, want: ImpactUnavailable, says: "no quorum lets"},
		"no quorum":                                {given: func(w *world) { w.primary(1, "n1", 7) }, failure: nobody, want: ImpactDegraded, says: "nothing is decided"},
		"no quorum, of one that nobody uses":       {failure: nobody, want: ImpactDegraded, says: "no quorum publishes it"},
		"a primary of protocol A":                  {protocol: protocolA, given: func(w *world) { w.primary(1, "n1", 7) }, failure: n1, want: ImpactUnavailable, says: "protocol A"},
		"the peer of a primary of protocol A":      {protocol: protocolA, given: func(w *world) { w.primary(1, "n1", 7) }, failure: n2, want: ImpactDegraded},
		"protocol A that nobody wrote to":          {protocol: protocolA, failure: n1, want: ImpactDegraded},
		"the last copy: the other is unreachable":  {given: func(w *world) { w.setUnreachable("n2", true) }, failure: n1, want: ImpactLost, says: "node n2, which has one, cannot be asked"},
		"the one that is unreachable already":      {given: func(w *world) { w.setUnreachable("n1", true) }, failure: n1, want: ImpactDegraded},
		"the last copy: the other is outdated":     {given: outdatedOnN2, failure: n1, want: ImpactLost, says: "the one on node n2 has not"},
		"the outdated one":                         {given: outdatedOnN2, failure: n2, want: ImpactNone},
		"the last copy: the other was booted":      {given: func(w *world) { w.reboot("n2") }, failure: n1, want: ImpactLost},
		"the last copy: the other is lost":         {given: func(w *world) { w.ok(admin, &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2"}) }, failure: n1, want: ImpactLost},
		"the last copy: the other in maintenance":  {given: func(w *world) { w.ok(admin, claim("n2")) }, failure: n1, want: ImpactLost},
		"the one in maintenance":                   {given: func(w *world) { w.ok(admin, claim("n2")) }, failure: n2, want: ImpactDegraded},
		"a primary that reads through its peer":    {given: disklessOnN1, failure: n2, want: ImpactLost},
		"a primary that has no disk":               {given: disklessOnN1, failure: n1, want: ImpactNone},
		"a suspended primary, whose peer is away":  {given: suspendedOnN1, failure: n2, want: ImpactDegraded},
		"a suspended primary, and no quorum":       {given: suspendedOnN1, failure: nobody, want: ImpactFrozen, says: "a verdict that no quorum gives"},
		"a replica that is being made":             {given: func(w *world) { w.ok(controller, createReplicated(2, protocolC)) }, failure: n1, want: ImpactDegraded},
		"a host that has nothing of it":            {given: func(w *world) { w.ok("node/n3", register("n3")) }, failure: Failure{Nodes: []NodeID{"n3"}}},
		"a host that is not known":                 {failure: Failure{Nodes: []NodeID{"n9"}}},
		"the fenced one of two":                    {given: func(w *world) { w.fence("10.0.0.2/32") }, failure: n1, want: ImpactLost},
		"a volume that is being deleted":           {given: func(w *world) { w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}) }, failure: both},
		"the last one, whose peer's disk had gone": {given: func(w *world) { w.diskFailedOnN2() }, failure: n1, want: ImpactLost},
	} {
		t.Run(name, func(t *testing.T) {
			protocol := tc.protocol
			if protocol == 0 {
				protocol = protocolC
			}
			w := newReplicated(t, protocol)
			if tc.given != nil {
				tc.given(w)
			}
			impact, reason := w.impactOn(1, tc.failure)
			require.Equal(t, tc.want.String(), impact.String(), reason)
			require.Contains(t, reason, tc.says)
		})
	}
}

// outdatedOnN2 has n1 go on as primary without n2.
func outdatedOnN2(w *world) {
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n1", suspendedObservation(upToDate))
	w.ok("node/n1", w.outdate(1, "n1", suspendedObservation(upToDate)))
	observed := disconnectedObservation(9, connecting)
	observed.Primary = true
	w.reportCurrent(1, "n1", observed)
	require.True(w.t, w.replicaSync(1, "n2").Outdated)
}

// disklessOnN1 has the primary lose its disk.
func disklessOnN1(w *world) {
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n1", ReplicaObservation{Disk: fsmpb.DiskState_DISK_STATE_DISKLESS, PeerDisk: upToDate, Connection: connected, UUID: 7, Primary: true})
}

// suspendedOnN1 has the primary lose its connection.
func suspendedOnN1(w *world) {
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n1", suspendedObservation(upToDate))
}

func (w *world) diskFailedOnN2() {
	w.primary(1, "n1", 7)
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: fsmpb.DiskState_DISK_STATE_DISKLESS, PeerDisk: upToDate, Connection: connected, UUID: 7})
}

func (w *world) fence(cidr string) {
	w.ok(admin, &fsmpb.FenceNetwork{Cidrs: []string{cidr}})
}

// A local volume comes back with its host, which it is no worse off for than it was made to be.
func TestALocalVolumeIsUnavailableWithItsHost(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.takeSnapshot(1, 1)
	w.staged(1, "n1", 1)
	all := w.s.IfStopped(Failure{Nodes: []NodeID{"n1"}})
	require.Equal(t, []VolumeImpact{{w.volume(1), ImpactUnavailable, "its only copy is on node n1, and comes back with it", true}}, all.Volumes)
	require.Equal(t, []PublicationImpact{{w.volume(1), "n1"}}, all.Publications)
	require.Equal(t, []*Snapshot{w.snapshot(1)}, all.Snapshots)
	require.Equal(t, ImpactUnavailable, all.Worst())
	require.Zero(t, (&FailureImpact{}).Worst())
}

// inZones is a pair of hosts with labels of zones, and a volume with a replica on each.
func inZones(t *testing.T, zones ...string) *world {
	w := &world{t: t, s: New()}
	w.ok("controller/c1", bootstrap())
	for i, zone := range zones {
		r := replicating(fmt.Sprint("n", i+1))
		if zone != "" {
			r.Labels = []*fsmpb.Label{{Key: ZoneKey, Value: zone}}
		}
		w.ok("node/"+r.GetNodeId(), r)
	}
	return w
}

func TestToleranceOfFailures(t *testing.T) {
	one, none := Tolerance{1, 1}, Tolerance{}
	for name, tc := range map[string]struct {
		zones            []string
		given            func(*world)
		node, zone, site Tolerance
		without          uint64
	}{
		"two zones":            {zones: []string{"a", "b"}, node: one, zone: one},
		"one zone":             {zones: []string{"a", "a"}, node: one},
		"no zones":             {zones: []string{"", ""}, node: one},
		"one copy left":        {zones: []string{"a", "b"}, given: outdatedOnN2, node: none, without: 1},
		"one in maintenance":   {zones: []string{"a", "b"}, given: func(w *world) { w.ok(admin, claim("n2")) }, node: none, without: 1},
		"in use":               {zones: []string{"a", "b"}, given: func(w *world) { w.primary(1, "n1", 7) }, node: one, zone: one},
		"protocol A, not used": {zones: []string{"a", "b"}, given: func(w *world) { w.readyReplicated(2, createReplicated(2, protocolA)) }, node: one, zone: one},
		"protocol A, in use": {zones: []string{"a", "b"}, given: func(w *world) {
			w.readyReplicated(2, createReplicated(2, protocolA))
			w.primary(2, "n1", 7)
		}, node: Tolerance{1, 0}, zone: Tolerance{1, 0}},
		"a local volume beside": {zones: []string{"a", "b"}, given: func(w *world) { w.ready(2, create(2)) }, node: one, zone: one},
	} {
		t.Run(name, func(t *testing.T) {
			w := inZones(t, tc.zones...)
			w.readyReplicated(1, createReplicated(1, protocolC))
			if tc.given != nil {
				tc.given(w)
			}
			for range 2 {
				all := w.s.ClusterTolerance()
				require.Equal(t, tc.node, all.Node, "hosts")
				require.Equal(t, tc.zone, all.Zone, "zones")
				require.Equal(t, tc.site, all.Site, "sites: all are at one")
				require.Equal(t, tc.without, all.WithoutRedundancy)
				require.NotEmpty(t, all.LimitedBy)
			}
		})
	}
}

func TestToleranceWithoutReplicatedVolumes(t *testing.T) {
	w := inZones(t, "a", "a", "b")
	require.Equal(t, ClusterTolerance{Node: Tolerance{3, 3}, Zone: Tolerance{2, 2}, Site: Tolerance{1, 1}}, w.s.ClusterTolerance())
	w.ready(1, create(1))
	require.Equal(t, ClusterTolerance{Local: 1}, w.s.ClusterTolerance())
	require.Zero(t, w.s.VolumeTolerance(w.volume(1), DomainNode))
}

func TestHostsOfADomain(t *testing.T) {
	w := inZones(t, "a", "a", "b", "")
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2"})
	require.Equal(t, []NodeID{"n1"}, w.s.NodesIn(DomainZone, "a"))
	require.Equal(t, []NodeID{"n3"}, w.s.NodesIn(DomainNode, "n3"))
	require.Equal(t, []NodeID{"n1", "n3", "n4"}, w.s.NodesIn(DomainSite, DefaultSite))
	require.Empty(t, w.s.NodesIn(DomainZone, ""), "a host without a zone is in none")
	require.Empty(t, w.s.NodesIn(DomainZone, "c"))
	require.Equal(t, "node zone site", fmt.Sprint(DomainNode, " ", DomainZone, " ", DomainSite))
}
