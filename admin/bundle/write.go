package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Options say what goes into a bundle.
type Options struct {
	// Since is when the journal begins; zero: with the newest Entries.
	Since   time.Time
	Entries uint64
	Version string // of this build
	Now     func() time.Time
	// Metrics are what is fetched of each controller's metrics, by the controller's name.
	Metrics map[string]func(context.Context, io.Writer) error
}

// ErrNothing: no part could be gathered.
var ErrNothing = errors.New("nothing could be gathered")

// pickTimeout is how long each controller may take to answer at all.
const pickTimeout = 5 * time.Second

// writer gathers parts into a folder of its own.
type writer struct {
	Options
	client   *admin.Client // of one controller
	stale    bool          // it knows no leader: its own state is read
	dir      string
	manifest *Manifest
}

// part is one file of answers.
type part struct {
	name  string
	write func(w *writer, ctx context.Context, to io.Writer) (index uint64, err error)
}

// parts are the files beside those of the log.
var parts = []part{
	{doctorFile, answer(func(ctx context.Context, api adminpb.AdminClient, _ bool) (*adminpb.DoctorResponse, error) {
		return api.Doctor(ctx, &adminpb.DoctorRequest{})
	})},
	{"status.json", answer(func(ctx context.Context, api adminpb.AdminClient, _ bool) (*adminpb.StatusResponse, error) {
		return api.Status(ctx, &adminpb.StatusRequest{})
	})},
	{"members.json", answer(func(ctx context.Context, api adminpb.AdminClient, _ bool) (*adminpb.MembersResponse, error) {
		return api.Members(ctx, &adminpb.MembersRequest{})
	})},
	{"versions.json", answer(func(ctx context.Context, api adminpb.AdminClient, _ bool) (*adminpb.UpgradeResponse, error) {
		return api.UpgradeStatus(ctx, &adminpb.UpgradeRequest{})
	})},
	{"nodes.json", answer(func(ctx context.Context, api adminpb.AdminClient, stale bool) (*adminpb.NodesResponse, error) {
		return api.Nodes(ctx, &adminpb.NodesRequest{Stale: stale})
	})},
	{"operations.json", answer(func(ctx context.Context, api adminpb.AdminClient, stale bool) (*adminpb.OperationsResponse, error) {
		return api.Operations(ctx, &adminpb.OperationsRequest{Stale: stale})
	})},
	{"fences.json", answer(func(ctx context.Context, api adminpb.AdminClient, stale bool) (*adminpb.FencesResponse, error) {
		return api.Fences(ctx, &adminpb.FencesRequest{Stale: stale})
	})},
	{auditFile, answer(func(ctx context.Context, api adminpb.AdminClient, _ bool) (*adminpb.AuditResponse, error) {
		return api.Audit(ctx, &adminpb.AuditRequest{})
	})},
	{"volumes.json", all(func(ctx context.Context, c *admin.Client, stale bool) (*adminpb.VolumesResponse, error) {
		return c.Volumes(ctx, &adminpb.VolumesRequest{Stale: stale})
	})},
	{"relations.json", all(relations)},
	{"snapshots.json", all(func(ctx context.Context, c *admin.Client, stale bool) (*adminpb.SnapshotsResponse, error) {
		return c.Snapshots(ctx, &adminpb.SnapshotsRequest{Stale: stale})
	})},
	{"kept-copies.json", all(func(ctx context.Context, c *admin.Client, stale bool) (*adminpb.SnapshotsResponse, error) {
		return c.Snapshots(ctx, &adminpb.SnapshotsRequest{Stale: stale, Kept: true})
	})},
	{"group-snapshots.json", all(func(ctx context.Context, c *admin.Client, stale bool) (*adminpb.GroupSnapshotsResponse, error) {
		return c.GroupSnapshots(ctx, &adminpb.GroupSnapshotsRequest{Stale: stale})
	})},
	{"groups.json", all(func(ctx context.Context, c *admin.Client, stale bool) (*adminpb.VolumeGroupsResponse, error) {
		return c.VolumeGroups(ctx, &adminpb.VolumeGroupsRequest{Stale: stale})
	})},
	{"state.json", (*writer).writeState},
}

// indexed is an answer of the API.
type indexed interface {
	proto.Message
	GetIndex() uint64
}

// answer writes one call's answer as JSON.
func answer[T indexed](call func(ctx context.Context, api adminpb.AdminClient, stale bool) (T, error)) func(*writer, context.Context, io.Writer) (uint64, error) {
	return all(func(ctx context.Context, c *admin.Client, stale bool) (resp T, err error) {
		err = c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
			resp, err = call(ctx, api, stale)
			return err
		})
		return resp, err
	})
}

// all writes the answer of a client's method as JSON.
func all[T indexed](call func(ctx context.Context, c *admin.Client, stale bool) (T, error)) func(*writer, context.Context, io.Writer) (uint64, error) {
	return func(w *writer, ctx context.Context, to io.Writer) (uint64, error) {
		resp, err := call(ctx, w.client, w.stale)
		if err != nil {
			return 0, err
		}
		return resp.GetIndex(), admin.Print(to, "json", resp)
	}
}

// relations are the volumes that are in a relation; those of groups are in groups.json too.
func relations(ctx context.Context, c *admin.Client, stale bool) (*adminpb.VolumesResponse, error) {
	resp, err := c.Volumes(ctx, &adminpb.VolumesRequest{Stale: stale})
	if err != nil {
		return nil, err
	}
	found := &adminpb.VolumesResponse{Index: resp.GetIndex()}
	for _, v := range resp.GetVolumes() {
		if v.GetRelation() != nil || v.GetConversion() != nil {
			found.Volumes = append(found.Volumes, v)
		}
	}
	return found, nil
}

// writeState writes the state as `holdfast state -o json` does.
func (w *writer) writeState(ctx context.Context, to io.Writer) (index uint64, err error) {
	doc := admin.StateDocument{W: to, Format: "json"}
	err = w.client.State(ctx, &adminpb.StateRequest{Stale: w.stale}, func(m *adminpb.StateResponse) error {
		if header := m.GetHeader(); header != nil {
			index = header.GetIndex()
		}
		return doc.Add(m)
	})
	if err != nil {
		return 0, err
	}
	return index, doc.End()
}

// Write gathers a bundle from one controller and writes it to a file that is not there yet. What could not be gathered is in the manifest that it
// returns. The error is ErrNothing when that is everything; then there is no file.
func Write(ctx context.Context, path string, client *admin.Client, o Options) (m *Manifest, err error) {
	if err := CheckName(path); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s is there already: choose another name", path)
	}
	one, leader, err := client.Pick(ctx, pickTimeout)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrNothing, admin.Reason(err))
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".holdfast-bundle-") // mode 0700
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := &writer{Options: o, client: one, stale: !leader, dir: dir, manifest: &Manifest{Format: format, Made: o.Now().UTC(), Version: o.Version, Files: []File{}, Missing: []Missing{}}}
	w.gather(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(w.manifest.Files) == 0 {
		return w.manifest, fmt.Errorf("%w: %s", ErrNothing, w.manifest.Missing[0].Reason)
	}
	return w.manifest, writeArchive(path, dir, w.manifest)
}

func (w *writer) gather(ctx context.Context) {
	w.addLog(ctx)
	for _, p := range parts {
		w.add(p.name, func(to io.Writer) (uint64, error) { return p.write(w, ctx, to) })
	}
	for _, name := range sortedKeys(w.Metrics) {
		w.add("metrics-"+name+".txt", func(to io.Writer) (uint64, error) { return 0, w.Metrics[name](ctx, to) })
	}
}

// add writes a part into its file, or notes why it is missing.
func (w *writer) add(name string, write func(io.Writer) (uint64, error)) {
	file, err := w.writeFile(name, write)
	if err != nil {
		w.miss(name, err)
		return
	}
	w.manifest.Files = append(w.manifest.Files, file)
}

func (w *writer) miss(name string, err error) {
	w.manifest.Missing = append(w.manifest.Missing, Missing{Name: name, Reason: admin.Reason(err)})
}

func (w *writer) writeFile(name string, write func(io.Writer) (uint64, error)) (file File, err error) {
	out, err := os.OpenFile(filepath.Join(w.dir, name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return file, err
	}
	sum := sha256.New()
	counted := &counter{w: io.MultiWriter(out, sum)}
	index, err := write(counted)
	if closeErr := out.Close(); err == nil { // joined, an answer's error would lose its message
		err = closeErr
	}
	if err != nil {
		return file, err
	}
	return File{Name: name, Bytes: counted.n, SHA256: hex.EncodeToString(sum.Sum(nil)), Index: index}, nil
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
