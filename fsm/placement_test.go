package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// small is a host with one pool of so many GiB, not over-committed, in a zone.
func small(node, zone string, capacity int64) *fsmpb.RegisterNode {
	r := register(node)
	r.Pools[0].CapacityBytes, r.Pools[0].OvercommitPercent = capacity*gib, 100
	r.Labels = []*fsmpb.Label{{Key: ZoneKey, Value: zone}}
	return r
}

func zone(z string) *fsmpb.Topology {
	return &fsmpb.Topology{Segments: []*fsmpb.Label{{Key: ZoneKey, Value: z}}}
}

// threeHosts are a with 10, b with 20, c with 20 GiB; a and b in zone x, c in y.
func threeHosts(t testing.TB) *world {
	w := &world{t: t, s: New()}
	w.ok(controller, bootstrap())
	w.ok("node/a", small("a", "x", 10))
	w.ok("node/b", small("b", "x", 20))
	w.ok("node/c", small("c", "y", 20))
	return w
}

func TestPlacement(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fsmpb.CreateVolume)
		before func(*world)
		node   NodeID
		says   string
	}{
		"most unreserved bytes, ties by id": {node: "b"},
		"in a preferred term":               {change: func(c *fsmpb.CreateVolume) { c.Preferred = []*fsmpb.Topology{zone("y")} }, node: "c"},
		"in the first preferred term":       {change: func(c *fsmpb.CreateVolume) { c.Preferred = []*fsmpb.Topology{onNode("a"), zone("y")} }, node: "a"},
		"preferred terms in order, with room": {change: func(c *fsmpb.CreateVolume) {
			c.RequiredBytes, c.Preferred = 15*gib, []*fsmpb.Topology{onNode("a"), zone("y")}
		}, node: "c"},
		"a preference nobody has is none": {change: func(c *fsmpb.CreateVolume) { c.Preferred = []*fsmpb.Topology{zone("q")} }, node: "b"},
		"within the requisite":            {change: func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("a")} }, node: "a"},
		"any of the requisite terms":      {change: func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("a"), zone("y")} }, node: "c"},
		"all segments of a term": {change: func(c *fsmpb.CreateVolume) {
			c.Requisite = []*fsmpb.Topology{{Segments: append(onNode("a").Segments, zone("y").Segments...)}}
		}, says: "matches the topology"},
		"requisite wins over preferred": {change: func(c *fsmpb.CreateVolume) {
			c.Requisite, c.Preferred = []*fsmpb.Topology{zone("x")}, []*fsmpb.Topology{zone("y")}
		}, node: "b"},
		"not on an unreachable host": {before: func(w *world) {
			w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "b", HostId: "host-b"})
		}, node: "c"},
		"not on a lost host": {before: func(w *world) { w.ok(admin, &fsmpb.LoseNode{NodeId: "b", HostId: "host-b"}) }, node: "c"},
		"no host at all": {before: func(w *world) {
			for _, n := range []string{"a", "b", "c"} {
				w.ok(controller, &fsmpb.SetNodeReachable{NodeId: n, HostId: "host-" + n})
			}
		}, says: "no reachable host has a pool"},
		"reservations count": {before: func(w *world) {
			w.ok(controller, changed(8, func(c *fsmpb.CreateVolume) { c.RequiredBytes = 5 * gib }))
		}, node: "c"},
		"exactly what is left": {change: func(c *fsmpb.CreateVolume) { c.RequiredBytes = 20 * gib }, node: "b"},
		"one unit too many":    {change: func(c *fsmpb.CreateVolume) { c.RequiredBytes = 20*gib + 1 }, says: "room"},
	} {
		t.Run(name, func(t *testing.T) {
			w := threeHosts(t)
			if tc.before != nil {
				tc.before(w)
			}
			c := create(1)
			if tc.change != nil {
				tc.change(c)
			}
			if tc.says != "" {
				require.Contains(t, w.rejected(NoCapacity, controller, c).GetRejection().GetMessage(), tc.says)
				return
			}
			w.twice(controller, c)
			require.Equal(t, tc.node, w.volume(1).Replicas[0].Node)
		})
	}
}

// S25: what admits is the state alone; a measured fact only excludes a pool, and
// what was placed after it was measured counts with its share.
func TestS25_AFactExcludesAndNeverAdmits(t *testing.T) {
	for name, tc := range map[string]struct {
		free   int64
		index  func(*world) uint64
		placed int
		want   Reason
		level  uint32 // 0: at both
	}{
		"a pool with room by the fact":             {free: 2 * gib},
		"less free than the volume":                {free: 2*gib - 1, want: NoCapacity, level: 2},
		"at the reserve":                           {free: gib, level: 1},
		"below the reserve":                        {free: gib - 1, want: NoCapacity},
		"no fact admits beyond the reservations":   {free: 1 << 60, placed: 20, want: NoCapacity},
		"placed after the fact, still above":       {free: 4 * gib, placed: 6, level: 1},
		"placed after the fact, room for one more": {free: 5 * gib, placed: 6},
		"placed after the fact, less than one":     {free: 5*gib - 1, placed: 6, want: NoCapacity, level: 2},
		"placed after the fact, below":             {free: 4*gib - 1, placed: 6, want: NoCapacity},
		"placed before the fact is measured in it": {free: 4*gib - 1, placed: 6, index: func(w *world) uint64 { return w.index }},
	} {
		for level := uint32(1); level <= MaxFeatureLevel; level++ {
			if tc.level != 0 && tc.level != level {
				continue
			}
			t.Run(fmt.Sprintf("%s, at level %d", name, level), func(t *testing.T) {
				w := &world{t: t, s: New()}
				first := bootstrap()
				first.FeatureLevel = level
				w.ok(controller, first)
				r := small("a", "x", 10)
				r.Pools[0].OvercommitPercent = 200
				w.ok("node/a", r)
				var index uint64
				for n := range tc.placed {
					w.ok(controller, create(10+n))
				}
				if tc.index != nil {
					index = tc.index(w)
				}
				c := create(1)
				c.Facts = []*fsmpb.PoolFact{{PoolId: "other"}, {PoolId: "pool-a", FreeBytes: tc.free, Index: index}}
				if tc.want != 0 {
					w.rejected(tc.want, controller, c)
					return
				}
				w.twice(controller, c)
			})
		}
	}
}

// S25: a volume is no larger than what is free, unless the operator overcommits more than
// twice; a clone shares what it is made of and is not asked. GetCapacity says the same.
func TestS25_AVolumeIsNoLargerThanWhatIsFree(t *testing.T) {
	for _, tc := range []struct {
		percent        uint32
		free           int64
		largest, total int64
	}{
		{100, 6 * gib, 5 * gib, 5 * gib}, {200, 6 * gib, 5 * gib, 10 * gib}, {400, 6 * gib, 10 * gib, 20 * gib},
		{200, gib, 0, 0}, {200, 0, 0, 0}, {200, -1, 0, 0}, {200, 1 << 60, 200 * gib, 200 * gib},
	} {
		w := &world{t: t, s: New()}
		w.ok(controller, bootstrap())
		r := small("a", "x", 100)
		r.Pools[0].OvercommitPercent = tc.percent
		w.ok("node/a", r)
		facts := []*fsmpb.PoolFact{{PoolId: "pool-a", FreeBytes: tc.free}}
		largest, total := w.s.Available(nil, FactsOf(facts))
		require.Equal(t, []int64{tc.largest, tc.total}, []int64{largest, total}, tc)
		ask := func(n int, size int64) *fsmpb.CreateVolume {
			return changed(n, func(c *fsmpb.CreateVolume) { c.RequiredBytes, c.Facts = size, facts })
		}
		w.rejected(NoCapacity, controller, ask(1, largest+VolumeSizeUnit))
		if largest > 0 {
			w.ok(controller, ask(2, largest))
		}
	}
}

func TestVolumesArePlacedOnBackendsThatAreKnown(t *testing.T) {
	for backend, want := range map[string]Reason{"loopfile": 0, "lvm": 0, "tape": NoCapacity, "": NoCapacity} {
		t.Run(backend, func(t *testing.T) {
			w := &world{t: t, s: New()}
			w.ok(controller, bootstrap())
			r := small("a", "x", 10)
			r.Pools[0].Backend = backend
			w.ok("node/a", r)
			if want != 0 {
				w.rejected(want, controller, create(1))
				return
			}
			w.twice(controller, create(1))
		})
	}
}

// S25: an unreachable host gets no new volume until its session is back.
func TestS25_OnlyReachableHostsAreCandidates(t *testing.T) {
	w := newWorld(t)
	w.twice(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
	w.rejected(NoCapacity, controller, create(1))
	w.twice(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1", Reachable: true})
	w.ok(controller, create(1))
}

// CSI-CTRL-GetCapacity-04, -06, -07.
func TestAvailableIsWhatCreateVolumeWouldGrant(t *testing.T) {
	w := threeHosts(t)
	largest, total := w.s.Available(nil, nil)
	require.Equal(t, []int64{20 * gib, 50 * gib}, []int64{largest, total})
	largest, total = w.s.Available([]Topology{{{ZoneKey, "x"}}}, nil)
	require.Equal(t, []int64{20 * gib, 30 * gib}, []int64{largest, total})
	largest, total = w.s.Available([]Topology{{{ZoneKey, "q"}}}, nil)
	require.Zero(t, largest+total)
	w.ok(controller, changed(1, func(c *fsmpb.CreateVolume) { c.RequiredBytes, c.Requisite = 20*gib, []*fsmpb.Topology{zone("y")} }))
	largest, total = w.s.Available([]Topology{{{ZoneKey, "y"}}}, nil)
	require.Zero(t, largest+total)
}
