package conformance

import (
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// badTerms makes a row: these topologies are refused wherever one is given.
func badTerms(terms ...*csi.Topology) rowTest {
	return with(func(k *kit) {
		for _, term := range terms {
			one := []*csi.Topology{term}
			k.rejects(codes.InvalidArgument, k.asked(at(one, nil)))
			k.rejects(codes.InvalidArgument, k.asked(at(nil, one)))
			_, err := k.ctl.GetCapacity(k.ctx, &csi.GetCapacityRequest{AccessibleTopology: term})
			refused(k.t, err, codes.InvalidArgument)
		}
		k.made()
	})
}

func keyed(keys ...string) []*csi.Topology {
	var all []*csi.Topology
	for _, key := range keys {
		all = append(all, segments(key, "a"))
	}
	return all
}

func valued(values ...string) []*csi.Topology {
	var all []*csi.Topology
	for _, value := range values {
		all = append(all, segments("example.com/zone", value))
	}
	return all
}

// lands makes a row: volumes with these requirements come to be at the nodes.
func lands(cases ...landing) rowTest {
	return with(func(k *kit) {
		for _, c := range cases {
			require.Contains(k.t, c.on, k.placeOf(k.made(at(places(c.requisite...), places(c.preferred...)))), "%+v", c)
		}
	})
}

type landing struct{ requisite, preferred, on []string }

func nodes(ids ...string) []string { return ids }

var topologyRows = map[string]rowTest{
	"CSI-CTRL-Topology-01": createRejected(codes.InvalidArgument, at(nil, nil)),
	"CSI-CTRL-Topology-02": lands(landing{requisite: nodes("n1"), on: nodes("n1")}, landing{requisite: nodes("n2"), on: nodes("n2")},
		landing{requisite: nodes("n1", "n2"), on: nodes("n1", "n2")}, landing{requisite: nodes("nowhere", "n2"), on: nodes("n2")}),
	"CSI-CTRL-Topology-03": with(func(k *kit) {
		for _, where := range []change{anywhere, at(places("n1", "n2"), nil), at(nil, places("n2"))} {
			require.NotEmpty(k.t, k.made(where).GetAccessibleTopology())
		}
	}),
	"CSI-CTRL-Topology-04": with(func(k *kit) {
		lands(landing{requisite: nodes("n1"), on: nodes("n1")}, landing{requisite: nodes("n2"), on: nodes("n2")})(k.t, k.w)
		k.rejects(codes.ResourceExhausted, k.asked(at(places("nowhere"), nil)))
	}),
	"CSI-CTRL-Topology-05": lands(landing{requisite: nodes("n1", "n2", "n1", "nowhere"), on: nodes("n1", "n2")},
		landing{requisite: nodes("n2", "n2", "nowhere"), on: nodes("n2")}, landing{requisite: nodes("a", "b", "c", "n1", "d"), on: nodes("n1")}),
	"CSI-CTRL-Topology-07": lands(landing{nodes("n1", "n2"), nodes("n2", "n1"), nodes("n2")}, landing{nodes("n1", "n2"), nodes("n1", "n2"), nodes("n1")},
		landing{nodes("n1", "n2", "nowhere"), nodes("nowhere", "n2", "n1"), nodes("n2")}, landing{nil, nodes("n2"), nodes("n2")}),
	"CSI-CTRL-Topology-08": createRejected(codes.InvalidArgument, at(places("n1"), places("n2")), at(places("n1"), places("n1", "n2"))),
	"CSI-CTRL-Topology-09": with(func(k *kit) {
		lands(landing{nodes("nowhere", "n1"), nodes("nowhere"), nodes("n1")})(k.t, k.w)
		k.full()
		lands(landing{nodes("n1", "n2"), nodes("n2"), nodes("n1")})(k.t, k.w)
	}),
	"CSI-CTRL-Topology-10": with(func(k *kit) {
		k.rejects(codes.ResourceExhausted, k.asked(at(places("nowhere", "elsewhere"), nil)))
		k.full()
		k.rejects(codes.ResourceExhausted, k.asked(at(places("n2", "nowhere"), nil), sized(1<<40, 0)))
	}),
	"CSI-CTRL-Topology-11": badTerms(keyed("", "/", "a//b", "example.com/-z", "z-", "z ", "a/b/c", "zöne", strings.Repeat("z", 64), "example.com/"+strings.Repeat("z", 64))...),
	"CSI-CTRL-Topology-12": badTerms(keyed("Com.X/zone", strings.Repeat("p", 64)+"/zone", "_x/zone", "-x/zone", "x-/zone", "x..y/zone", "x_y/zone", "/zone")...),
	"CSI-CTRL-Topology-13": with(func(k *kit) {
		prefixes := map[string]bool{}
		for _, key := range k.allKeys() {
			prefix, _, _ := strings.Cut(key, "/")
			prefixes[prefix] = true
		}
		require.Len(k.t, prefixes, 1)
	}),
	"CSI-CTRL-Topology-14": with(func(k *kit) {
		for range 8 { // in whichever order the pair is read
			k.rejects(codes.InvalidArgument, k.asked(at([]*csi.Topology{segments("example.com/Zone", "a", "example.com/zone", "a")}, nil)))
		}
		for _, id := range []string{"n1", "n2"} {
			other := strings.Replace(harness.TopologyKey, "/node", "/NoDe", 1)
			require.Equal(k.t, id, k.placeOf(k.made(at([]*csi.Topology{segments(other, id)}, nil))))
		}
	}),
	"CSI-CTRL-Topology-15": badTerms(valued(strings.Repeat("v", 64), "-x", "x-", "_x", ".")...),
	"CSI-CTRL-Topology-16": badTerms(valued("")...),
	"CSI-CTRL-Topology-17": badTerms(keyed("example.com/")...),
	"CSI-CTRL-Topology-18": with(func(k *kit) { // Z2 is n1, Z3 is n2
		lands(landing{nodes("n1", "n2"), nodes("n2"), nodes("n2")})(k.t, k.w)
		k.full()
		lands(landing{nodes("n1", "n2"), nodes("n2"), nodes("n1")})(k.t, k.w)
	}),
	"CSI-CTRL-Topology-19": lands( // of Z2 to Z5 two have hosts
		landing{nodes("z2", "z3", "n1", "n2"), nodes("n2", "z2"), nodes("n2")},
		landing{nodes("n1", "z3", "z4", "n2"), nodes("z4", "n1"), nodes("n1")},
		landing{nodes("z2", "n1", "z4", "n2"), nodes("z4", "z2"), nodes("n1", "n2")}),
	"CSI-CTRL-Topology-21": with(func(k *kit) {
		id, err := k.w.Cluster.Identity("c1")
		require.NoError(k.t, err)
		info, err := id.GetPluginInfo(k.ctx, &csi.GetPluginInfoRequest{})
		require.NoError(k.t, err)
		for _, key := range k.allKeys() {
			prefix, _, _ := strings.Cut(key, "/")
			require.Contains(k.t, prefix, "holdfast.storage")
			require.Contains(k.t, info.GetName(), "holdfast.storage")
		}
	}),
}

// allKeys are the topology keys that nodes and controllers answer.
func (k *kit) allKeys() []string {
	k.t.Helper()
	var all []string
	add := func(t *csi.Topology) {
		for key := range t.GetSegments() {
			all = append(all, key)
		}
	}
	for _, id := range []string{"n1", "n2"} {
		node, err := k.w.Cluster.Node(id)
		require.NoError(k.t, err)
		info, err := node.NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{})
		require.NoError(k.t, err)
		add(info.GetAccessibleTopology())
	}
	v := k.made(anywhere)
	entry := k.listed(v.GetVolumeId())
	require.NotNil(k.t, entry)
	for _, t := range append(v.GetAccessibleTopology(), entry.GetVolume().GetAccessibleTopology()...) {
		add(t)
	}
	require.GreaterOrEqual(k.t, len(all), 4)
	return all
}
