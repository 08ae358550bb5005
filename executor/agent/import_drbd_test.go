package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	othersGeneration = 0xA1B2C3D4E5F60718
	othersContent    = importSize - (2 << 20)
	othersDump       = "version \"v09\";\n"
	othersDigest     = "32 bytes which stand for content"
)

// othersDevice is one host's device of a DRBD resource of others, in a pool that makes and removes nothing.
type othersDevice struct {
	t    testing.TB
	pair *othersPair
	i    int
	path string // of the candidate

	mu       sync.Mutex
	metadata *fsmpb.DrbdMetadata // nil: they were overwritten
	digests  int                 // how often the content was read
	written  int                 // before which of them something wrote to it beside DRBD, counted from 1; 0: nothing did
	open     bool
	taken    bool // it has the volume's name
	wasTaken bool // it had it once, and may have been given back since
	clears   int
}

// othersPair are the devices of both hosts.
type othersPair struct {
	*pair
	devices [2]*othersDevice
	only    []*member // the hosts whose replicas are imported; none: both
}

// othersPool is the device as its pool shows it; othersDRBD as DRBD does.
type (
	othersPool struct {
		poolOf
		d *othersDevice
	}
	othersDRBD struct {
		*backendtest.FakeReplicator
		d *othersDevice
	}
)

var (
	_ executor.ImportBackend    = othersPool{}
	_ executor.MetadataImporter = othersDRBD{}
)

func newOthersPair(t testing.TB) *othersPair {
	p := &othersPair{pair: newStoppedPair(t)}
	for i, m := range p.hosts {
		d := &othersDevice{t: t, pair: p, i: i, metadata: &fsmpb.DrbdMetadata{
			Format: 9, CurrentUuid: othersGeneration, ContentBytes: othersContent, DrbdNode: int32(i), Consistent: true, UpToDate: true,
			Peers: []*fsmpb.DrbdPeer{{DrbdNode: int32(1 - i)}},
		}}
		p.devices[i] = d
		m.configure = func(cfg *agent.Config) {
			cfg.Pools = []executor.Backend{othersPool{poolOf{m.pool, m.node, m.replicator}, d}}
			cfg.Replicator = othersDRBD{m.replicator, d}
		}
	}
	return p
}

func (othersPool) Kind() string { return "lvm" }

func (p othersPool) Create(context.Context, fsm.VolumeID, int64) error {
	p.d.t.Error("what is imported is not made")
	return nil
}

func (p othersPool) Remove(context.Context, fsm.VolumeID) error {
	p.d.t.Error("what was imported is not removed")
	return nil
}

func (p othersPool) Candidates(context.Context) ([]executor.ImportCandidate, error) {
	return []executor.ImportCandidate{{Device: importDevice, Name: "pvc-1_00000", Size: importSize, Path: p.d.path, Probed: true, Signatures: []string{"drbd"}}}, nil
}

func (p othersPool) Locate(context.Context, string) (executor.Device, error) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if p.d.open {
		return executor.Device{}, fsm.Reject(fsm.InUse, "it is open")
	}
	return executor.Device{Exists: true, Size: importSize, Path: "/dev/dm-9"}, nil
}

func (p othersPool) Import(ctx context.Context, id fsm.VolumeID, size int64, device string) error {
	require.Equal(p.d.t, importDevice, device)
	require.EqualValues(p.d.t, importSize, size)
	p.d.mu.Lock()
	p.d.taken, p.d.wasTaken = true, true
	p.d.mu.Unlock()
	return p.FakeBackend.Create(ctx, id, size)
}

func (p othersPool) GiveBack(ctx context.Context, id fsm.VolumeID, _ string) error {
	p.d.mu.Lock()
	p.d.taken = false
	p.d.mu.Unlock()
	return p.FakeBackend.Remove(ctx, id)
}

func (r othersDRBD) ForeignMetadata(context.Context, string) (*fsmpb.DrbdMetadata, []byte, error) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	switch {
	case r.d.open:
		return nil, nil, errors.New("it is open")
	case r.d.metadata == nil:
		return nil, nil, nil
	}
	return protobuf.CloneOf(r.d.metadata), []byte(othersDump), nil
}

func (r othersDRBD) ContentDigest(_ context.Context, _ string, content int64) ([]byte, error) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	require.EqualValues(r.d.t, othersContent, content)
	if r.d.digests++; r.d.written > 0 && r.d.digests >= r.d.written {
		return []byte(strings.ToUpper(othersDigest)), nil
	}
	return []byte(othersDigest), nil
}

func (othersDRBD) ReplicatedBytes(backing int64) (int64, string) { return backing - (1 << 20), "" }

// ClearBehind is called once both hosts have their devices, and with a dump on disk.
func (r othersDRBD) ClearBehind(_ context.Context, _ string, from int64) error {
	require.EqualValues(r.d.t, othersContent, from)
	files, err := filepath.Glob(filepath.Join(r.d.pair.hosts[r.d.i].dir, "drbd-metadata", "*.md"))
	require.NoError(r.d.t, err)
	require.Len(r.d.t, files, 1)
	for _, d := range r.d.pair.devices {
		d.mu.Lock()
		require.True(r.d.t, d.wasTaken || len(r.d.pair.only) > 0, "n%d took its device in before any metadata are replaced", d.i+1)
		d.mu.Unlock()
	}
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.metadata = nil
	r.d.clears++
	return nil
}

// imports proposes the import, of the replicas of these hosts.
func (p *othersPair) imports(hosts ...*member) fsm.VolumeID {
	p.t.Helper()
	id := backendtest.NewID()
	c := &fsmpb.ImportDrbd{VolumeId: string(id), Name: "imported", SizeBytes: importSize - (1 << 20), FsType: "ext4", FsUuid: importFSUUID, ContentDigest: []byte(othersDigest)}
	if len(hosts) == 1 {
		c.SizeBytes = importSize
	}
	for _, m := range hosts {
		m.mounter.setContent(id, executor.Content{Read: true, Found: executor.Filesystem{Type: "ext4", UUID: importFSUUID}})
		c.Replicas = append(c.Replicas, &fsmpb.DrbdReplica{
			NodeId: string(m.node), HostId: string(m.host()), PoolId: "hp-" + string(m.node), DeviceId: importDevice, DeviceName: "pvc-1_00000",
			DeviceBytes: importSize, Format: 9, CurrentUuid: othersGeneration, ContentBytes: othersContent, DrbdNode: uint32(m.i),
		})
	}
	p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_ImportDrbd{ImportDrbd: c}})
	return id
}

// S15, S55: killed at any point, on either host, a pair is imported: no metadata are replaced before both hosts took their
// devices in and kept a dump, nothing is formatted or copied, and then it replicates.
func TestS15_TheImportOfAPairGoesOnWhereAHostWasKilled(t *testing.T) {
	t.Parallel()
	points := append(slices.Clone(agent.DRBDImportFaultPoints), "", "import.before", "import.after", "create-metadata.before", "new-uuid.before", "report.before")
	for _, point := range points {
		for i := range 2 {
			t.Run([]string{"n1 ", "n2 "}[i]+point, func(t *testing.T) {
				t.Parallel()
				p := newOthersPair(t)
				f := stopAt(point, 0)
				faults := []*stopAtPoint{stopAt("", 0), stopAt("", 0)}
				faults[i] = f
				p.hosts[0].start(faults[0])
				p.hosts[1].start(faults[1])
				a, b := p.hosts[0], p.hosts[1]
				id := p.imports(a, b)
				p.eventually("it is imported", func() bool { return p.isReady(id) })
				epoch := b.publish(id)
				b.stage(id, epoch)
				b.write(id, "after the import")
				p.waitUpToDate(id)
				b.unstage(id)
				b.unpublish(id)
				for _, m := range p.hosts {
					require.Zero(t, m.mounter.count("mkfs"))
					require.Zero(t, m.replicator.Steps("invalidate"))
					require.Zero(t, m.replicator.Steps("remake-metadata"))
					text, err := os.ReadFile(filepath.Join(m.dir, "drbd-metadata", string(id)+".md"))
					require.NoError(t, err)
					require.Equal(t, othersDump, string(text))
					require.Positive(t, p.devices[m.i].clears)
				}
				if point != "" && point != "new-uuid.before" { // which one host does
					f.mu.Lock()
					defer f.mu.Unlock()
					require.True(t, f.hits[point], point)
				}
			})
		}
	}
}

// S14: a host that finds another generation, metadata that are not whole, or none, ends the import. Both devices are given
// back with their metadata.
func TestS14_APairOfWhichOneHostRefusesIsGivenBackUntouched(t *testing.T) {
	for name, change := range map[string]func(*fsmpb.DrbdMetadata){
		"it was primary meanwhile":             func(m *fsmpb.DrbdMetadata) { m.CurrentUuid += 2 },
		"it was outdated, and has its UUID":    func(m *fsmpb.DrbdMetadata) { m.UpToDate = false },
		"it has blocks that its peer has not":  func(m *fsmpb.DrbdMetadata) { m.Peers[0].OutOfSyncBits = 1 },
		"its host crashed while it was in use": func(m *fsmpb.DrbdMetadata) { m.Primary = true },
		"it is another size":                   func(m *fsmpb.DrbdMetadata) { m.ContentBytes += 4096 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newOthersPair(t)
			change(p.devices[1].metadata)
			p.hosts[0].start(nil)
			p.hosts[1].start(nil)
			id := p.imports(p.hosts[0], p.hosts[1])
			p.eventually("it is given back", func() bool { return p.volume(id) == nil })
			for _, d := range p.devices {
				require.NotNil(t, d.metadata)
				require.False(t, d.taken)
				require.Zero(t, d.clears)
			}
		})
	}
}

// S14, S55: a host that has other content than the plan saw, before the rename or under the new name, ends the import without
// replacing its metadata, which say nothing of it; when all hosts have theirs, it waits for an operator, who ends it.
func TestS14_AReplicaThatWasWrittenToBesideDRBDIsGivenBack(t *testing.T) {
	for name, written := range map[string]int{"before the rename": 1, "before it is verified": 2, "before its metadata are replaced": 3} {
		t.Run(name, func(t *testing.T) {
			p := newOthersPair(t)
			p.devices[1].written = written
			p.hosts[0].start(nil)
			p.hosts[1].start(nil)
			id := p.imports(p.hosts[0], p.hosts[1])
			if written == 3 {
				var op fsm.Operation
				p.eventually("the operation says why it waits", func() bool {
					op = *p.volume(id).Operation
					return strings.Contains(op.LastError, "without DRBD")
				})
				p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_CancelOperation{CancelOperation: &fsmpb.CancelOperation{OperationId: uint64(op.ID)}}})
			}
			p.eventually("it is given back", func() bool { return p.volume(id) == nil })
			require.NotNil(t, p.devices[1].metadata)
			require.Zero(t, p.devices[1].clears)
			require.False(t, p.devices[0].taken || p.devices[1].taken)
			require.GreaterOrEqual(t, p.devices[1].digests, written)
		})
	}
}

// A device that was brought up again between the plan and the import is waited for, and the operation says so.
func TestAReplicaThatIsUpIsNotImported(t *testing.T) {
	p := newOthersPair(t)
	p.devices[1].open = true
	p.hosts[0].start(nil)
	p.hosts[1].start(nil)
	id := p.imports(p.hosts[0], p.hosts[1])
	p.eventually("the operation says why it waits", func() bool {
		op := p.volume(id).Operation
		return op != nil && op.LastError != ""
	})
	require.Zero(t, p.devices[0].clears)
	p.devices[1].mu.Lock()
	p.devices[1].open = false
	p.devices[1].mu.Unlock()
	p.eventually("it goes on by itself", func() bool { return p.isReady(id) })
}

// S1, S55: what was written since is not overwritten where the log was restored to the middle of the import.
func TestS1_MetadataAreReplacedOnce(t *testing.T) {
	p := newOthersPair(t)
	p.hosts[0].start(nil)
	p.hosts[1].start(nil)
	id := p.imports(p.hosts[0], p.hosts[1])
	p.eventually("it is imported", func() bool { return p.isReady(id) })
	b := p.hosts[1]
	b.stage(id, b.publish(id))
	b.write(id, "after the import")
	p.waitUpToDate(id)
	b.unstage(id)
	b.unpublish(id)
	p.restoreLog(p.beforeAttachment(1))
	require.False(t, p.isReady(id), "the log is of the middle of the import, and no host acts for it yet")
	for _, m := range p.hosts {
		m.adopt()
	}
	p.eventually("the restored log has the volume again", func() bool { return p.isReady(id) })
	for _, d := range p.devices {
		require.Equal(t, 1, d.clears)
		require.True(t, has(p.hosts[d.i].replicator.DiskContent(id), "after the import"))
		require.Zero(t, p.hosts[d.i].mounter.count("mkfs"))
	}
}

// One replica alone becomes a plain volume of its device's size, and is given back.
func TestAReplicaAloneIsImportedAsAPlainVolume(t *testing.T) {
	for _, point := range append(slices.Clone(agent.DRBDImportFaultPoints), "") {
		t.Run("at "+point, func(t *testing.T) {
			p := newOthersPair(t)
			p.only = p.hosts[:1]
			p.hosts[0].start(stopAt(point, 0))
			p.hosts[1].start(nil)
			p.devices[0].metadata.Peers[0].BitmapUuid = 7 // its peer is behind, which is why it is imported alone
			id := p.imports(p.hosts[0])
			p.eventually("it is imported", func() bool { return p.isReady(id) })
			require.Nil(t, p.volume(id).Replication)
			require.EqualValues(t, importSize, p.volume(id).Size)
			require.Positive(t, p.devices[0].clears)
			require.NotNil(t, p.devices[1].metadata)
			p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_ForgetImport{ForgetImport: &fsmpb.ForgetImport{VolumeId: string(id), DeviceId: importDevice}}})
			p.eventually("it is given back", func() bool { return p.volume(id) == nil })
			require.False(t, p.devices[0].taken)
		})
	}
}

// A candidate's metadata are shown, and never read while it is open.
func TestCandidatesShowTheMetadataOfOthers(t *testing.T) {
	p := newOthersPair(t)
	p.hosts[0].start(nil)
	p.devices[0].path = ownedPath(t, p.hosts[0].pool)
	id, _ := p.hosts[0].pool.Owner(p.devices[0].path)
	p.hosts[0].mounter.setContent(id, executor.Content{Read: true, Found: executor.Filesystem{Type: "ext4", UUID: importFSUUID}})
	found, err := p.hosts[0].e.Candidates(t.Context())
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	c := &fsmpb.ImportCandidate{}
	require.NoError(t, protobuf.Unmarshal([]byte(found.Items[0].Candidate), c))
	require.EqualValues(t, uint64(othersGeneration), c.GetDrbd().GetCurrentUuid())
	require.EqualValues(t, importSize-(1<<20), c.GetReplicatedBytes())
	require.Equal(t, othersDigest, string(c.GetContentDigest()))
	require.Equal(t, "ext4", c.GetFsType())
	require.EqualValues(t, testSize-4096, c.GetFsBytes())
}

// ownedPath is the path of a device that the fake pool has, and knows by it.
func ownedPath(t testing.TB, pool *backendtest.FakeBackend) string {
	id := backendtest.NewID()
	require.NoError(t, pool.Create(t.Context(), id, importSize))
	device, err := pool.Activate(t.Context(), id, false)
	require.NoError(t, err)
	return device.Path
}
