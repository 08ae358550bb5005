package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab/stamps"
)

// relation is a volume, or a group of volumes, that is replicated between the two sites, with the turns of its
// writers: each writes its site, its role and its number to the first volume and then to the others.
type relation struct {
	w          *env
	sites      [2]*site // A and B
	source     *replication.ReplicationSource
	group      string
	parameters map[string]string // beside the sites
	volumes    map[*site][]*volume
	turns      []stamps.Turn
	writer     *writer // of the last turn
	eager      uint64  // how many blocks a writer writes before its first pause
}

func (r *relation) other(s *site) *site {
	if r.sites[0] == s {
		return r.sites[1]
	}
	return r.sites[0]
}

// newRelation makes a volume over both sites and enables its replication through both, as two orchestrators do.
func newRelation(t *testing.T, a, b *site, name string, block bool, parameters ...string) *relation {
	t.Helper()
	r := unclaimed(a, b, parameters...)
	r.add(t, name, 32*mi, block)
	r.source = sourceOfVolume(r.volumes[a][0].id)
	r.claim(t)
	return r
}

// newRelationOf is newRelation of a raw volume of a size.
func newRelationOf(t *testing.T, a, b *site, name string, size int64) *relation {
	t.Helper()
	r := unclaimed(a, b)
	r.add(t, name, size, true)
	r.source = sourceOfVolume(r.volumes[a][0].id)
	r.claim(t)
	return r
}

// newGroupRelation makes a group of raw volumes over both sites, and enables its replication.
func newGroupRelation(t *testing.T, a, b *site, name string, members int, parameters ...string) *relation {
	t.Helper()
	r := unclaimed(a, b, parameters...)
	for i := range members {
		r.add(t, fmt.Sprintf("%s-%d", name, i+1), 32*mi, true)
	}
	r.createGroup(t, a, name)
	r.source = sourceOfGroup(r.group)
	require.NoError(t, r.enable(t.Context(), a))
	r.createGroup(t, b, name) // the same group, by its members
	r.claim(t)
	return r
}

func unclaimed(a, b *site, parameters ...string) *relation {
	r := &relation{w: a.w, sites: [2]*site{a, b}, eager: eagerBlocks, volumes: map[*site][]*volume{}, parameters: map[string]string{}}
	for i := 0; i+1 < len(parameters); i += 2 {
		r.parameters[parameters[i]] = parameters[i+1]
	}
	return r
}

// add makes a volume with a replica at each site. The protocol is chosen when it is made.
func (r *relation) add(t *testing.T, name string, size int64, block bool) {
	t.Helper()
	r.w.count++
	a, b := r.sites[0], r.sites[1]
	v := &volume{name: fmt.Sprintf("%s-%d", name, r.w.count), size: size, block: block}
	parameters := map[string]string{"sites": "A,B", "site": a.name}
	if p := r.parameters["protocol"]; p != "" {
		parameters["protocol"] = p
	}
	require.NoError(t, a.create(t.Context(), v, nil, parameters))
	require.Len(t, v.hosts, 2)
	r.addCopies(t, v, a, b)
}

// addCopies has both orchestrators know the volume.
func (r *relation) addCopies(t *testing.T, v *volume, a, b *site) {
	t.Helper()
	r.volumes[a] = append(r.volumes[a], v)
	r.volumes[b] = append(r.volumes[b], r.w.copied(t, v, b.name))
}

// claim enables the replication through both sites and waits until both replicas are equal.
func (r *relation) claim(t *testing.T) {
	t.Helper()
	require.NoError(t, r.enable(t.Context(), r.sites[0]))
	require.NoError(t, r.enable(t.Context(), r.sites[1]))
	r.awaitInSync(t)
}

func (r *relation) awaitInSync(t *testing.T) {
	t.Helper()
	for _, v := range r.volumes[r.sites[0]] {
		r.w.awaitInSync(t, v)
	}
}

// createGroup makes the group through a site, whose orchestrator knows it by a name of its own.
func (r *relation) createGroup(t *testing.T, s *site, name string) {
	t.Helper()
	r.w.count++
	var ids []string
	for _, v := range r.volumes[s] {
		ids = append(ids, v.id)
	}
	require.NoError(t, retryUntil(t.Context(), "create a group through "+s.name, func(ctx context.Context) error {
		resp, err := s.groups.CreateVolumeGroup(ctx, &volumegroup.CreateVolumeGroupRequest{Name: fmt.Sprintf("vgrcontent-%s-%d", name, r.w.count), VolumeIds: ids})
		if id := resp.GetVolumeGroup().GetVolumeGroupId(); err == nil && r.group != "" && id != r.group {
			return fmt.Errorf("it is group %s, and %s at the other site", id, r.group)
		}
		r.group = resp.GetVolumeGroup().GetVolumeGroupId()
		return err
	}))
}

// use publishes and stages the volumes at a site, requires that everything acknowledged is there, and begins a turn.
func (r *relation) use(t *testing.T, s *site) {
	t.Helper()
	r.stage(t, s)
	for _, v := range r.volumes[s] {
		r.requireStamps(t, v, s.host(t, v))
	}
	r.beginTurn(t, s)
}

func (r *relation) stage(t *testing.T, s *site) {
	t.Helper()
	for _, v := range r.volumes[s] {
		require.NoError(t, s.publish(t.Context(), v, s.host(t, v)))
		require.NoError(t, s.stage(t.Context(), v, s.host(t, v)))
	}
}

// beginTurn starts a writer at a site.
func (r *relation) beginTurn(t *testing.T, s *site) {
	t.Helper()
	all := r.volumes[s]
	stamp := stamps.Stamp{Site: s.name, Node: s.host(t, all[0]), Epoch: "role-" + r.role(t), Turn: len(r.turns) + 1}
	from := stamps.Next(r.turns)
	r.turns = append(r.turns, stamps.Turn{Stamp: stamp, From: from, Acked: from - 1})
	r.writer = r.w.newWriter(t, all[0], stamp.Node, stamp.String(), from, r.eager, all[1:]...)
	r.writer.awaitBlocks(t, 30)
}

// role is the index at which the role moved last, empty where the volume is not replicated between sites.
func (r *relation) role(t *testing.T) string {
	t.Helper()
	state, err := r.w.logState(t.Context(), r.volumes[r.sites[0]][0])
	require.NoError(t, err)
	if state.Relation == nil {
		return ""
	}
	return state.Relation.Role.String()
}

// acked brings the last turn up to date, and answers the last number that was acknowledged.
func (r *relation) acked() uint64 {
	turn := &r.turns[len(r.turns)-1]
	turn.Acked = max(turn.Acked, r.writer.readAcks().Number)
	return turn.Acked
}

// end ends the writer and the use of the volumes at a site.
func (r *relation) end(t *testing.T, s *site) {
	t.Helper()
	if r.writer != nil && !r.writer.ended {
		require.Empty(t, r.writer.stop(t).Error)
		r.writer.ended = true
		r.acked()
	}
	r.unstage(t, s)
}

func (r *relation) unstage(t *testing.T, s *site) {
	t.Helper()
	for _, v := range r.volumes[s] {
		require.NoError(t, s.unstage(t.Context(), v, s.host(t, v)))
		require.NoError(t, s.unpublish(t.Context(), v, s.host(t, v)))
	}
}

// gone: the last turn ended with its site, or will end with an error.
func (r *relation) gone() {
	r.acked()
	r.writer.ended = true
}

// relocate moves the role in order: nothing is discarded by the resynchronisation that orchestrators ask for (S47).
func (r *relation) relocate(t *testing.T, from, to *site) {
	t.Helper()
	r.end(t, from)
	require.NoError(t, r.demote(t.Context(), from))
	_, err := r.resync(t.Context(), from, true)
	require.NoError(t, err)
	require.NoError(t, r.promote(t.Context(), to, false))
	r.use(t, to)
}

// requireStamps requires that what is acknowledged is in the volume, where no writer is at work.
func (r *relation) requireStamps(t *testing.T, v *volume, node string) {
	t.Helper()
	if len(r.turns) > 0 {
		r.requireJudged(t, v, r.w.scanOf(t, node, v.path(), 0), "the volume on "+node)
	}
}

func (r *relation) requireJudged(t *testing.T, v *volume, found scanned, where string) {
	t.Helper()
	if wrong := stamps.Judge(found.Blocks, r.turns, ringBlocks); len(wrong) > 0 {
		r.w.fatalf(t, "%s, %s: %d findings, the first: %s; turns %+v", v.name, where, len(wrong), strings.Join(wrong[:min(5, len(wrong))], "; "), r.turns)
	}
}

// scanOf reads a file or device.
func (w *env) scanOf(t *testing.T, node, path string, bytes int64) (found scanned) {
	t.Helper()
	out := w.mustExec(t, node, fmt.Sprintf("/run/lab/writer scan --direct --path %s --bytes %d", path, bytes))
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	return found
}

// judge waits until nobody uses the volumes and both replicas are up to date, and looks at the replicas' own devices:
// they are equal, and every acknowledged write is there.
func (r *relation) judge(t *testing.T) {
	t.Helper()
	for _, v := range r.volumes[r.sites[0]] {
		r.w.awaitUnused(t, v)
		var found []scanned
		for _, node := range v.hosts {
			found = append(found, r.w.scanOf(t, node, "/dev/mapper/"+v.device(), v.size))
			r.requireJudged(t, v, found[len(found)-1], "the replica on "+node)
		}
		require.Equal(t, found[0].Sums, found[1].Sums, "the replicas of %s are equal", v.name)
	}
	r.noSplitBrain(t)
	last := r.turns[len(r.turns)-1]
	t.Logf("%d turns, %d stamps, every acknowledged one is accounted for", len(r.turns), last.Acked)
}

// noSplitBrain: no kernel saw one, but for those that a forced resynchronisation resolves.
func (r *relation) noSplitBrain(t *testing.T) {
	t.Helper()
	seen := "Split-Brain"
	if slices.ContainsFunc(r.turns, func(turn stamps.Turn) bool { return turn.Forced }) {
		seen = "Split-Brain detected but unresolved"
	}
	for _, g := range r.w.lab.Guests() {
		require.False(t, strings.Contains(g.Console()[r.w.lastError[g.Index]:], seen), "the kernel of %s saw a split brain", g.Name())
	}
}

// remove ends the replication through the primary, and deletes the volumes.
func (r *relation) remove(t *testing.T, primary *site) {
	t.Helper()
	require.NoError(t, r.disable(t.Context(), primary))
	if r.group != "" {
		r.leaveGroup(t, primary)
	}
	for _, v := range r.volumes[primary] {
		require.NoError(t, primary.delete(t.Context(), v))
	}
}

// leaveGroup empties and deletes the group through a site, as its controller does at the end.
func (r *relation) leaveGroup(t *testing.T, s *site) {
	t.Helper()
	require.NoError(t, retryUntil(t.Context(), "empty the group through "+s.name, func(ctx context.Context) error {
		_, err := s.groups.ModifyVolumeGroupMembership(ctx, &volumegroup.ModifyVolumeGroupMembershipRequest{VolumeGroupId: r.group})
		return err
	}))
	require.NoError(t, retryUntil(t.Context(), "delete the group through "+s.name, func(ctx context.Context) error {
		_, err := s.groups.DeleteVolumeGroup(ctx, &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: r.group})
		return err
	}))
}
