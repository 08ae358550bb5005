package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCapacityForTwoReplicasIsWhatTwoHostsCanHold(t *testing.T) {
	const g = int64(1) << 30
	type host struct {
		name     string
		size     int64
		local    bool // holds no replicas of replicated volumes
		cordoned bool
	}
	inA := []Topology{{{Key: TopologyKey, Value: "a"}}}
	for name, tc := range map[string]struct {
		hosts          []host
		terms          []Topology
		replicas       uint32
		largest, total int64
	}{
		"no host":                             {replicas: 2},
		"one host holds none":                 {hosts: []host{{name: "a", size: 8 * g}}, replicas: 2},
		"two equal ones hold one's size":      {hosts: []host{{name: "a", size: 8 * g}, {name: "b", size: 8 * g}}, replicas: 2, largest: 8 * g, total: 8 * g},
		"of two the smaller one counts":       {hosts: []host{{name: "a", size: 8 * g}, {name: "b", size: 3 * g}}, replicas: 2, largest: 3 * g, total: 3 * g},
		"of three the two largest":            {hosts: []host{{name: "a", size: 8 * g}, {name: "b", size: 3 * g}, {name: "c", size: 6 * g}}, replicas: 2, largest: 6 * g, total: 8*g + g/2},
		"the first is within the terms":       {hosts: []host{{name: "a", size: 2 * g}, {name: "b", size: 8 * g}, {name: "c", size: 6 * g}}, terms: inA, replicas: 2, largest: 2 * g, total: 2 * g},
		"a host without DRBD does not count":  {hosts: []host{{name: "a", size: 8 * g}, {name: "b", size: 8 * g, local: true}}, replicas: 2},
		"nor does one that is cordoned":       {hosts: []host{{name: "a", size: 8 * g}, {name: "b", size: 8 * g, cordoned: true}}, replicas: 2},
		"for one replica all count":           {hosts: []host{{name: "a", size: 8 * g}, {name: "b", size: 8 * g, local: true}}, replicas: 1, largest: 8 * g, total: 16 * g},
		"the largest numbers do not overflow": {hosts: []host{{name: "a", size: 1<<63 - 1}, {name: "b", size: 1<<63 - 1}}, replicas: 2, largest: MaxVolumeSize, total: (1<<63 - 1) / VolumeSizeUnit * VolumeSizeUnit},
	} {
		t.Run(name, func(t *testing.T) {
			s := New()
			s.Apply(1, envelope("controller/c1", "first", 0, bootstrap()))
			for _, h := range tc.hosts {
				n := Node{ID: NodeID(h.name), Host: HostID("host-" + h.name), State: NodeReachable, Incarnation: 1, Cordoned: h.cordoned,
					Pools: []Pool{{ID: PoolID(h.name), Backend: loopfileBackend, Capacity: h.size, OvercommitPercent: 100}}}
				if !h.local {
					n.Replication = NodeReplication{Address: "192.0.2.1", MaxReplicas: 2}
				}
				s.putNode(n)
			}
			for range 2 {
				largest, total := s.AvailableReplicated(tc.terms, tc.replicas, nil)
				require.Equal(t, tc.largest, largest)
				require.Equal(t, tc.total, total)
			}
		})
	}
}
