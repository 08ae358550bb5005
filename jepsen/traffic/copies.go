package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/jepsen/model"
)

// Copies says how copies are made: snapshots, group snapshots, clones and restores, beside growing and changing the
// volumes that they are made of. The model sees each copy as a name of its own that is created and deleted.
type Copies struct {
	Clients int
	// Sources are volumes that nobody deletes; Snapshot is one of the first, which nobody deletes either.
	Sources  []string
	Snapshot string
	// SourceSize is their size.
	SourceSize int64
	Groups     func() (csi.GroupControllerClient, error)
	Request    func(name string, size int64) *csi.CreateVolumeRequest

	mu      sync.Mutex
	members map[string][]string // by group snapshot: its snapshots
}

// What the names of copies begin with.
const (
	snapshotPrefix = "copy-snapshot-"
	clonePrefix    = "copy-clone-"
	restorePrefix  = "copy-restore-"
	groupPrefix    = "copy-group-"
	sourcePrefix   = "copy-source-"
	listName       = "copy-list"
)

// copied tells whether a name is of this file.
func copied(name string) bool { return strings.HasPrefix(name, "copy-") }

// perKind is how many names of each kind are in use: few, so that clients meet.
const perKind = 2

// SourceName is the name by which the history has a source.
func SourceName(source string) string { return sourcePrefix + source }

// recordSources has the history begin with what exists already.
func (r *workload) recordSources() {
	for _, source := range r.Copies.Sources {
		in := model.Input{Kind: model.Create, Name: SourceName(source), Size: r.Copies.SourceSize}
		r.history.Do(r.Clients, in, func() model.Output { return model.Output{Outcome: model.OK, ID: source} })
	}
}

// copier is one client that makes copies.
func (r *workload) copier(ctx context.Context, client int) {
	rng := rand.New(rand.NewPCG(r.Seed, uint64(client)))
	names := r.copyNames()
	for turn := 0; ctx.Err() == nil; turn++ {
		if in, other := r.Copies.other(rng); other {
			r.do(ctx, client, in, &trackedName{})
			continue
		}
		n := names[rng.IntN(len(names))]
		in := model.Input{Kind: model.Create, Name: n.text}
		if id := n.current(); id != "" && rng.IntN(2) == 0 {
			in = model.Input{Kind: model.Delete, Name: n.text, ID: id}
		}
		r.do(ctx, client, in, n)
	}
}

// copyNames are the same for all copiers.
func (r *workload) copyNames() []*trackedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, prefix := range []string{snapshotPrefix, clonePrefix, restorePrefix, groupPrefix} {
		for i := range perKind {
			if len(r.copies) < 4*perKind {
				r.copies = append(r.copies, &trackedName{text: fmt.Sprintf("%s%d-%d", prefix, r.Seed, i)})
			}
		}
	}
	return r.copies
}

// other is one of the calls that make no copy.
func (c *Copies) other(rng *rand.Rand) (in model.Input, other bool) {
	source := c.Sources[rng.IntN(len(c.Sources))]
	switch rng.IntN(6) {
	case 0:
		return model.Input{Kind: model.Expand, Name: SourceName(source), ID: source, Size: c.SourceSize + int64(rng.IntN(4))<<20}, true
	case 1:
		return model.Input{Kind: model.Modify, Name: SourceName(source), ID: source, Size: int64(1000 + rng.IntN(1000))}, true
	case 2:
		return model.Input{Kind: model.List, Name: listName}, true
	}
	return in, false
}

// call makes one call on a copy or a source.
func (c *Copies) call(ctx context.Context, client csi.ControllerClient, in model.Input, opts ...grpc.CallOption) (out model.Output, err error) {
	switch {
	case in.Kind == model.List:
		_, err = client.ListVolumes(ctx, &csi.ListVolumesRequest{MaxEntries: 10}, opts...)
	case in.Kind == model.Expand:
		var res *csi.ControllerExpandVolumeResponse
		res, err = client.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: in.ID, CapacityRange: &csi.CapacityRange{RequiredBytes: in.Size}}, opts...)
		out.Size = res.GetCapacityBytes()
	case in.Kind == model.Modify:
		_, err = client.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{VolumeId: in.ID,
			MutableParameters: map[string]string{"iopsLimit": fmt.Sprintf("%d/%d", in.Size, in.Size)}}, opts...)
	case strings.HasPrefix(in.Name, groupPrefix):
		return c.callGroup(ctx, in, opts...)
	case strings.HasPrefix(in.Name, snapshotPrefix):
		return c.callSnapshot(ctx, client, in, opts...)
	case in.Kind == model.Delete:
		_, err = client.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: in.ID}, opts...)
	default:
		var res *csi.CreateVolumeResponse
		res, err = client.CreateVolume(ctx, c.request(in.Name), opts...)
		out.ID = res.GetVolume().GetVolumeId()
	}
	return out, err
}

// request makes a volume of another one or of a snapshot. Sources grow to 3 MiB more at most.
func (c *Copies) request(name string) *csi.CreateVolumeRequest {
	req := c.Request(name, c.SourceSize+4<<20)
	if strings.HasPrefix(name, restorePrefix) {
		req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: c.Snapshot}}}
		return req
	}
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: c.Sources[0]}}}
	return req
}

func (c *Copies) callSnapshot(ctx context.Context, client csi.ControllerClient, in model.Input, opts ...grpc.CallOption) (out model.Output, err error) {
	if in.Kind == model.Delete {
		_, err = client.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: in.ID}, opts...)
		return out, err
	}
	res, err := client.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: in.Name, SourceVolumeId: c.Sources[0]}, opts...)
	out.ID = res.GetSnapshot().GetSnapshotId()
	return out, err
}

func (c *Copies) callGroup(ctx context.Context, in model.Input, opts ...grpc.CallOption) (out model.Output, err error) {
	client, err := c.Groups()
	if err != nil {
		return out, err
	}
	if in.Kind == model.Delete {
		_, err = client.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: in.ID, SnapshotIds: c.membersOf(in.ID)}, opts...)
		return out, err
	}
	res, err := client.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: in.Name, SourceVolumeIds: c.Sources}, opts...)
	out.ID = res.GetGroupSnapshot().GetGroupSnapshotId()
	c.noteMembers(res.GetGroupSnapshot())
	return out, err
}

func (c *Copies) noteMembers(g *csi.VolumeGroupSnapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members == nil {
		c.members = map[string][]string{}
	}
	var ids []string
	for _, s := range g.GetSnapshots() {
		ids = append(ids, s.GetSnapshotId())
	}
	c.members[g.GetGroupSnapshotId()] = ids
}

func (c *Copies) membersOf(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[id]
}
