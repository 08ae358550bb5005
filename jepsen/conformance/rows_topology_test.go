package conformance

import (
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// rowBadTopology makes a row: these topologies are refused wherever one is given.
func rowBadTopology(terms ...*csi.Topology) rowTest {
	return rowOf(func(k *fixture) {
		for _, term := range terms {
			one := []*csi.Topology{term}
			k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withTopology(one, nil)))
			k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withTopology(nil, one)))
			_, err := k.controller.GetCapacity(k.ctx, &csi.GetCapacityRequest{AccessibleTopology: term})
			requireRefused(k.t, err, codes.InvalidArgument)
		}
		k.createVolume()
	})
}

func termsWithKeys(keys ...string) []*csi.Topology {
	var all []*csi.Topology
	for _, key := range keys {
		all = append(all, topologyTerm(key, "a"))
	}
	return all
}

func termsWithValues(values ...string) []*csi.Topology {
	var all []*csi.Topology
	for _, value := range values {
		all = append(all, topologyTerm("example.com/zone", value))
	}
	return all
}

// rowPlacement makes a row: volumes with these requirements come to be at the nodes.
func rowPlacement(cases ...placementCase) rowTest {
	return rowOf(func(k *fixture) {
		for _, c := range cases {
			require.Contains(k.t, c.wantNodes, k.nodeOf(k.createVolume(withTopology(nodeTerms(c.requisite...), nodeTerms(c.preferred...)))), "%+v", c)
		}
	})
}

type placementCase struct{ requisite, preferred, wantNodes []string }

func nodes(ids ...string) []string { return ids }

var topologyRows = map[string]rowTest{
	"CSI-CTRL-Topology-01": rowCreateRejected(codes.InvalidArgument, withTopology(nil, nil)),
	"CSI-CTRL-Topology-02": rowPlacement(placementCase{requisite: nodes("n1"), wantNodes: nodes("n1")}, placementCase{requisite: nodes("n2"), wantNodes: nodes("n2")},
		placementCase{requisite: nodes("n1", "n2"), wantNodes: nodes("n1", "n2")}, placementCase{requisite: nodes("nowhere", "n2"), wantNodes: nodes("n2")}),
	"CSI-CTRL-Topology-03": rowOf(func(k *fixture) {
		for _, where := range []change{withoutTopology, withTopology(nodeTerms("n1", "n2"), nil), withTopology(nil, nodeTerms("n2"))} {
			require.NotEmpty(k.t, k.createVolume(where).GetAccessibleTopology())
		}
	}),
	"CSI-CTRL-Topology-04": rowOf(func(k *fixture) {
		rowPlacement(placementCase{requisite: nodes("n1"), wantNodes: nodes("n1")}, placementCase{requisite: nodes("n2"), wantNodes: nodes("n2")})(k.t, k.env)
		k.requireCreateRejected(codes.ResourceExhausted, k.newCreateRequest(withTopology(nodeTerms("nowhere"), nil)))
	}),
	"CSI-CTRL-Topology-05": rowPlacement(placementCase{requisite: nodes("n1", "n2", "n1", "nowhere"), wantNodes: nodes("n1", "n2")},
		placementCase{requisite: nodes("n2", "n2", "nowhere"), wantNodes: nodes("n2")}, placementCase{requisite: nodes("a", "b", "c", "n1", "d"), wantNodes: nodes("n1")}),
	"CSI-CTRL-Topology-07": rowPlacement(placementCase{nodes("n1", "n2"), nodes("n2", "n1"), nodes("n2")}, placementCase{nodes("n1", "n2"), nodes("n1", "n2"), nodes("n1")},
		placementCase{nodes("n1", "n2", "nowhere"), nodes("nowhere", "n2", "n1"), nodes("n2")}, placementCase{nil, nodes("n2"), nodes("n2")}),
	"CSI-CTRL-Topology-08": rowCreateRejected(codes.InvalidArgument, withTopology(nodeTerms("n1"), nodeTerms("n2")), withTopology(nodeTerms("n1"), nodeTerms("n1", "n2"))),
	"CSI-CTRL-Topology-09": rowOf(func(k *fixture) {
		rowPlacement(placementCase{nodes("nowhere", "n1"), nodes("nowhere"), nodes("n1")})(k.t, k.env)
		k.fillNode()
		rowPlacement(placementCase{nodes("n1", "n2"), nodes("n2"), nodes("n1")})(k.t, k.env)
	}),
	"CSI-CTRL-Topology-10": rowOf(func(k *fixture) {
		k.requireCreateRejected(codes.ResourceExhausted, k.newCreateRequest(withTopology(nodeTerms("nowhere", "elsewhere"), nil)))
		k.fillNode()
		k.requireCreateRejected(codes.ResourceExhausted, k.newCreateRequest(withTopology(nodeTerms("n2", "nowhere"), nil), withSize(1<<40, 0)))
	}),
	"CSI-CTRL-Topology-11": rowBadTopology(termsWithKeys("", "/", "a//b", "example.com/-z", "z-", "z ", "a/b/c", "zöne", strings.Repeat("z", 64), "example.com/"+strings.Repeat("z", 64))...),
	"CSI-CTRL-Topology-12": rowBadTopology(termsWithKeys("Com.X/zone", strings.Repeat("p", 64)+"/zone", "_x/zone", "-x/zone", "x-/zone", "x..y/zone", "x_y/zone", "/zone")...),
	"CSI-CTRL-Topology-13": rowOf(func(k *fixture) {
		prefixes := map[string]bool{}
		for _, key := range k.allKeys() {
			prefix, _, _ := strings.Cut(key, "/")
			prefixes[prefix] = true
		}
		require.Len(k.t, prefixes, 1)
	}),
	"CSI-CTRL-Topology-14": rowOf(func(k *fixture) {
		for range 8 { // in whichever order the pair is read
			k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withTopology([]*csi.Topology{topologyTerm("example.com/Zone", "a", "example.com/zone", "a")}, nil)))
		}
		for _, id := range []string{"n1", "n2"} {
			other := strings.Replace(harness.TopologyKey, "/node", "/NoDe", 1)
			require.Equal(k.t, id, k.nodeOf(k.createVolume(withTopology([]*csi.Topology{topologyTerm(other, id)}, nil))))
		}
	}),
	"CSI-CTRL-Topology-15": rowBadTopology(termsWithValues(strings.Repeat("v", 64), "-x", "x-", "_x", ".")...),
	"CSI-CTRL-Topology-16": rowBadTopology(termsWithValues("")...),
	"CSI-CTRL-Topology-17": rowBadTopology(termsWithKeys("example.com/")...),
	"CSI-CTRL-Topology-18": rowOf(func(k *fixture) { // Z2 is n1, Z3 is n2
		rowPlacement(placementCase{nodes("n1", "n2"), nodes("n2"), nodes("n2")})(k.t, k.env)
		k.fillNode()
		rowPlacement(placementCase{nodes("n1", "n2"), nodes("n2"), nodes("n1")})(k.t, k.env)
	}),
	"CSI-CTRL-Topology-19": rowPlacement( // of Z2 to Z5 two have hosts
		placementCase{nodes("z2", "z3", "n1", "n2"), nodes("n2", "z2"), nodes("n2")},
		placementCase{nodes("n1", "z3", "z4", "n2"), nodes("z4", "n1"), nodes("n1")},
		placementCase{nodes("z2", "n1", "z4", "n2"), nodes("z4", "z2"), nodes("n1", "n2")}),
	"CSI-CTRL-Topology-21": rowOf(func(k *fixture) {
		id, err := k.env.Cluster.Identity("c1")
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
func (k *fixture) allKeys() []string {
	k.t.Helper()
	var all []string
	add := func(t *csi.Topology) {
		for key := range t.GetSegments() {
			all = append(all, key)
		}
	}
	for _, id := range []string{"n1", "n2"} {
		node, err := k.env.Cluster.Node(id)
		require.NoError(k.t, err)
		info, err := node.NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{})
		require.NoError(k.t, err)
		add(info.GetAccessibleTopology())
	}
	v := k.createVolume(withoutTopology)
	entry := k.listEntry(v.GetVolumeId())
	require.NotNil(k.t, entry)
	for _, t := range append(v.GetAccessibleTopology(), entry.GetVolume().GetAccessibleTopology()...) {
		add(t)
	}
	require.GreaterOrEqual(k.t, len(all), 4)
	return all
}
