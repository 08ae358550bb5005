package scenarios

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// twoSites are sites A and B with a controller and a node each, and a witness. wideSites have two of each.
var (
	twoSites  = layout{nodes: 2, sites: []string{"A", "B", "W"}}
	wideSites = layout{guests: 5, nodes: 4, sites: []string{"A", "A", "B", "B", "W"}}
)

// site is a site's orchestrator.
type site struct {
	*orchestrator
	w           *env
	name        string
	guests      []int
	fencing     fence.FenceControllerClient
	replication []replication.ControllerClient // as many as controllers
	groups      volumegroup.ControllerClient
}

// site is the orchestrator of the site that has its first controller in a guest.
func (w *env) site(t *testing.T, guest int) *site {
	t.Helper()
	s := &site{w: w, name: w.layout.sites[guest-1], orchestrator: &orchestrator{folder: w.co.folder, nodes: w.co.nodes}}
	for i, name := range w.layout.sites {
		if name != s.name {
			continue
		}
		conn, err := w.cluster.ControllerCSI(i + 1)
		require.NoError(t, err)
		s.guests = append(s.guests, i+1)
		s.controllers = append(s.controllers, csi.NewControllerClient(conn))
		s.replication = append(s.replication, replication.NewControllerClient(conn))
		s.fencing, s.groups = fence.NewFenceControllerClient(conn), volumegroup.NewControllerClient(conn)
	}
	s.lastSilence = make([]atomic.Int64, len(s.controllers))
	return s
}

// createOverSites makes a volume with one replica at each site.
func (s *site) createOverSites(t *testing.T, name string, block bool) *volume {
	t.Helper()
	v := &volume{name: name, size: 32 * mi, block: block}
	require.NoError(t, s.create(t.Context(), v, nil, map[string]string{"sites": "A,B", "site": s.name}))
	require.Equal(t, []string{"n1", "n2"}, v.hosts, "one replica is at each site")
	return v
}

// createUnused makes a volume of the site that nobody uses.
func (s *site) createUnused(t *testing.T) *volume {
	t.Helper()
	s.w.count++
	v := &volume{name: fmt.Sprintf("unused-%d", s.w.count), size: 4 * mi, block: true}
	require.NoError(t, s.create(t.Context(), v, nil, nil))
	return v
}

// clientsOf are who a host says that it is, as the controllers of CSI-Addons ask each node's socket.
func (w *env) clientsOf(t *testing.T, node string) (id string, cidrs []*fence.CIDR) {
	t.Helper()
	conn, err := w.cluster.NodeCSI(w.guest(node).Index)
	require.NoError(t, err)
	require.NoError(t, retryUntil(t.Context(), "ask "+node+" who it is", func(ctx context.Context) error {
		resp, err := fence.NewFenceControllerClient(conn).GetFenceClients(ctx, &fence.GetFenceClientsRequest{})
		if err == nil && len(resp.GetClients()) == 1 {
			id, cidrs = resp.GetClients()[0].GetId(), resp.GetClients()[0].GetAddresses()
		}
		return err
	}))
	for _, network := range []lab.Network{lab.Replication, lab.API, lab.Management} {
		require.Contains(t, fmt.Sprint(cidrs), w.guest(node).IP(network)+"/32")
	}
	return id, cidrs
}

// fence fences until it is answered OK.
func (s *site) fence(t *testing.T, cidrs []*fence.CIDR, parameters map[string]string) {
	t.Helper()
	require.NoError(t, retryUntil(t.Context(), "fence", func(ctx context.Context) error {
		_, err := s.fencing.FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{Cidrs: cidrs, Parameters: parameters})
		return err
	}))
}

func (s *site) unfence(t *testing.T, cidrs []*fence.CIDR) {
	t.Helper()
	require.NoError(t, retryUntil(t.Context(), "unfence", func(ctx context.Context) error {
		_, err := s.fencing.UnfenceClusterNetwork(ctx, &fence.UnfenceClusterNetworkRequest{Cidrs: cidrs})
		return err
	}))
}

// nodeFence is how a node is fenced, empty where it is not.
func (w *env) nodeFence(ctx context.Context, node string) (string, error) {
	var all struct {
		Nodes []struct{ ID, Fence string } `json:"nodes"`
	}
	if err := w.cluster.Ask(ctx, &all, "nodes"); err != nil {
		return "", err
	}
	for _, n := range all.Nodes {
		if n.ID == node {
			return n.Fence, nil
		}
	}
	return "", fmt.Errorf("node %s is not known", node)
}

// requireFenced requires that a node is fenced, and that its own site can publish nothing there.
func (s *site) requireFenced(t *testing.T, node string, unused *volume) {
	t.Helper()
	is, err := s.w.nodeFence(t.Context(), node)
	require.NoError(t, err)
	require.NotEmpty(t, is, "%s is fenced", node)
	eventually(t, timeout, "a publication to "+node+" is refused", func(ctx context.Context) error {
		_, err := s.controllers[0].ControllerPublishVolume(ctx, s.publishRequest(unused, node))
		require.Error(t, err)
		if !strings.Contains(err.Error(), "node "+node+" is fenced") {
			return err
		}
		return nil
	})
}

var handleLine, onLine = regexp.MustCompile(`volumeHandle: (\S+)`), regexp.MustCompile(`values: \[(.*)\]`)

// copied is the volume as the orchestrator of another site knows it by the PersistentVolume that is printed for it.
func (w *env) copied(t *testing.T, v *volume, to string) *volume {
	t.Helper()
	out := w.cluster.MustAdmin(t, "volumes", "manifest", v.id, "--site", to)
	handle, on := handleLine.FindStringSubmatch(out), onLine.FindStringSubmatch(out)
	require.NotNil(t, handle, out)
	require.NotNil(t, on, out)
	return &volume{name: v.name + "-copied", id: handle[1], size: v.size, block: v.block, hosts: strings.Split(strings.NewReplacer(`"`, "", " ", "").Replace(on[1]), ",")}
}

// S57, S58, S59, S60, S35: the order of a metro cluster. The hosts of site A say who they are, B fences them while
// they write, and its copies of the volumes are published and staged there. Nothing that was acknowledged is missing and
// nothing is acknowledged afterwards; the writers get errors. Calls that are left over change nothing, and the host is
// back only after B unfenced it and it has reconciled.
func TestS57_S58_S59_S60_ASiteFencesALiveWriterOfAnother(t *testing.T) {
	w := newEnvOf(t, twoSites)
	a, b := w.site(t, 1), w.site(t, 2)
	for range rounds() {
		w.failOverByFence(t, a, b)
	}
	w.noSplitBrain(t)
}

func (w *env) failOverByFence(t *testing.T, a, b *site) {
	w.count++
	volumes := []*volume{a.createOverSites(t, fmt.Sprintf("data-%d", w.count), false), a.createOverSites(t, fmt.Sprintf("raw-%d", w.count), true)}
	unused := a.createUnused(t)
	var old []*writer
	for _, v := range volumes {
		require.NoError(t, a.publish(t.Context(), v, "n1"))
		require.NoError(t, a.stage(t.Context(), v, "n1"))
		w.awaitInSync(t, v)
		old = append(old, w.write(t, v, "n1", 1))
	}
	id, cidrs := w.clientsOf(t, "n1")
	old[0].awaitBlocks(t, 30)
	began := time.Now()
	b.fence(t, cidrs, map[string]string{"expectHosts": id, "site": "B"})
	t.Logf("the fence was in force after %s", time.Since(began).Round(time.Millisecond))
	acked := lastAcknowledged(t, old)
	a.requireFenced(t, "n1", unused)
	copies, fresh := w.takeOverAt(t, b, volumes, acked)
	for i, x := range old {
		w.awaitWriterError(t, x, acked[i])
	}
	b.fence(t, cidrs, nil) // left over, as a restarted manager sends it
	a.unfence(t, cidrs)    // not its fence
	a.requireFenced(t, "n1", unused)
	w.comeBack(t, a, b, cidrs, unused)
	w.failBack(t, a, b, volumes, copies, fresh)
}

// takeOverAt publishes and stages the volumes' copies at the other site, where everything acknowledged is, and writes on.
func (w *env) takeOverAt(t *testing.T, b *site, volumes []*volume, acked []uint64) (copies []*volume, fresh []*writer) {
	t.Helper()
	for i, v := range volumes {
		c := w.copied(t, v, b.name)
		require.Equal(t, []string{"n2"}, c.hosts)
		require.NoError(t, b.publish(t.Context(), c, "n2"))
		require.NoError(t, b.stage(t.Context(), c, "n2"))
		w.requireAcknowledged(t, c, "n2", acked[i])
		x := w.write(t, c, "n2", acked[i]+1)
		x.awaitBlocks(t, 20)
		copies, fresh = append(copies, c), append(fresh, x)
	}
	return copies, fresh
}

// comeBack ends the fence while the fenced host's process is dead: the host serves after it has begun a session and
// reported what it had to end.
func (w *env) comeBack(t *testing.T, a, b *site, cidrs []*fence.CIDR, unused *volume) {
	t.Helper()
	require.NoError(t, w.cluster.KillNode(t.Context(), 1))
	for range 2 {
		b.unfence(t, cidrs)
		a.requireFenced(t, "n1", unused)
	}
	require.NoError(t, w.cluster.StartNode(t.Context(), 1))
	eventually(t, timeout, "n1 is not fenced any more", func(ctx context.Context) error {
		is, err := w.nodeFence(ctx, "n1")
		if err == nil && is != "" {
			err = fmt.Errorf("it is %s", is)
		}
		return err
	})
	b.unfence(t, cidrs) // left over
	w.awaitState(t, "n1", "reachable")
	require.NoError(t, a.publish(t.Context(), unused, "n1"))
	require.NoError(t, a.unpublish(t.Context(), unused, "n1"))
	require.NoError(t, a.delete(t.Context(), unused))
}

// failBack has the volumes used at the first site again, where everything is that was written at the other.
func (w *env) failBack(t *testing.T, a, b *site, volumes, copies []*volume, fresh []*writer) {
	t.Helper()
	for i, v := range volumes {
		w.awaitSynchronised(t, v, "n2", "the fenced replica is synchronised")
		last := fresh[i].stop(t)
		require.Empty(t, last.Error)
		require.NoError(t, a.unstage(t.Context(), v, "n1"))
		require.NoError(t, b.unstage(t.Context(), copies[i], "n2"))
		require.NoError(t, b.unpublish(t.Context(), copies[i], "n2"))
		require.NoError(t, a.publish(t.Context(), v, "n1"))
		require.NoError(t, a.stage(t.Context(), v, "n1"))
		w.requireAcknowledged(t, v, "n1", last.Number)
		require.NoError(t, a.unstage(t.Context(), v, "n1"))
		require.NoError(t, a.unpublish(t.Context(), v, "n1"))
	}
	w.awaitKept(t, "n1", volumes...)
	for _, v := range volumes {
		require.NoError(t, a.delete(t.Context(), v))
	}
}
