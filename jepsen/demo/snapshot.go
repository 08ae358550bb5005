package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// writeJournal is a file to which a writer appends entries, each synced.
type writeJournal struct {
	path    string
	entries atomic.Int64 // entries that are synced
	stop    chan struct{}
	done    chan error
}

func startWriteJournal(path string) *writeJournal {
	d := &writeJournal{path: path, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { d.done <- d.write() }()
	return d
}

func (d *writeJournal) write() error {
	f, err := os.Create(d.path)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		select {
		case <-d.stop:
			return f.Close()
		default:
		}
		if _, err := fmt.Fprintf(f, "entry %d\n", n); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Sync(); err != nil {
			return errors.Join(err, f.Close())
		}
		d.entries.Add(1)
	}
}

// end stops the writer and returns what it wrote.
func (d *writeJournal) end() ([]byte, error) {
	close(d.stop)
	if err := <-d.done; err != nil {
		return nil, fmt.Errorf("keep a diary: %w", err)
	}
	return os.ReadFile(d.path)
}

// restore takes a snapshot of a mounted volume while it is written to, and creates a volume from it.
func (s *demo) restore(ctx context.Context) error {
	source := s.staged[0]
	d := startWriteJournal(filepath.Join(source.Target, "diary"))
	err := harness.Poll(ctx, harness.Patience, "the writer to write", func() (bool, error) { return d.entries.Load() > 10, nil })
	if err != nil {
		return err
	}
	before, begin := d.entries.Load(), time.Now()
	err = s.takeSnapshot(ctx, source, "documents-at-noon")
	took, after := s.elapsed(begin), d.entries.Load()
	whole, ended := d.end()
	if err := errors.Join(err, ended); err != nil {
		return err
	}
	s.printStepf("snapshot %s after %s; entry %d was on the disk before, entry %d after", s.snapshot, took, before, after)
	restored, err := s.fromSnapshot(ctx, source)
	if err != nil {
		return err
	}
	return s.compare(restored, whole, before, after)
}

// takeSnapshot takes a snapshot; it is repeated with the same name, which is the same snapshot.
func (s *demo) takeSnapshot(ctx context.Context, of *mountedVolume, name string) error {
	for range 2 {
		c, err := s.controller(ctx)
		if err != nil {
			return err
		}
		res, err := c.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{SourceVolumeId: of.ID, Name: name})
		if err != nil {
			return err
		}
		id := res.GetSnapshot().GetSnapshotId()
		if s.snapshot != "" && s.snapshot != id || !res.GetSnapshot().GetReadyToUse() {
			return fmt.Errorf("the name %s is snapshot %s, ready %t, and snapshot %s", name, id, res.GetSnapshot().GetReadyToUse(), s.snapshot)
		}
		s.snapshot = id
	}
	return nil
}

func (s *demo) controller(ctx context.Context) (csi.ControllerClient, error) {
	leader, err := s.cluster.Leader(ctx)
	if err != nil {
		return nil, err
	}
	return s.cluster.Controller(leader)
}

// fromSnapshot creates a volume of twice the size from the snapshot, and mounts it.
func (s *demo) fromSnapshot(ctx context.Context, source *mountedVolume) (*mountedVolume, error) {
	c, err := s.controller(ctx)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	req := harness.Spec{Name: "restored", Size: 2 * source.Size, FSType: source.FSType}.CreateRequest()
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: s.snapshot}}}
	res, err := c.CreateVolume(ctx, req)
	if err != nil {
		return nil, err
	}
	v := &harness.Volume{Name: req.GetName(), ID: res.GetVolume().GetVolumeId(), Size: res.GetVolume().GetCapacityBytes(),
		FSType: source.FSType, Context: res.GetVolume().GetVolumeContext()}
	s.volumes[v.Name] = v
	u := &mountedVolume{Volume: v, data: source.data}
	s.staged = append(s.staged, u)
	if err := s.co.PublishStageBind(ctx, v, "n1"); err != nil {
		return nil, err
	}
	size, err := filesystemSize(v.Target)
	s.printStepf("%-10s of it: %s, a filesystem of %d MiB, %s", v.Name, v.ID, size/harness.Mi, s.elapsed(begin))
	return u, err
}

// compare checks that the data is unchanged, and that the restored journal is a prefix of the whole one:
// before and after are the entries that were synced when the snapshot began and ended.
func (s *demo) compare(restored *mountedVolume, whole []byte, before, after int64) error {
	if err := restored.verify(); err != nil {
		return err
	}
	part, err := os.ReadFile(filepath.Join(restored.Target, "diary"))
	if err != nil {
		return err
	}
	entries := int64(bytes.Count(part, []byte("\n")))
	if !bytes.HasPrefix(whole, part) || entries < before || entries > after+1 {
		return fmt.Errorf("the restored diary has %d entries, not %d to %d, or others than its source", entries, before, after)
	}
	s.printStepf("%-10s sha256 %.12s, as written; its diary ends with entry %d, that of its source with %d",
		restored.Name, restored.sum(), entries-1, bytes.Count(whole, []byte("\n"))-1)
	return nil
}

// expand doubles the size of a mounted xfs.
func (s *demo) expand(ctx context.Context) error {
	u := s.staged[1]
	before, err := filesystemSize(u.Target)
	if err != nil {
		return err
	}
	c, err := s.controller(ctx)
	if err != nil {
		return err
	}
	begin, size := time.Now(), &csi.CapacityRange{RequiredBytes: 2 * u.Size}
	res, err := c.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: u.ID, CapacityRange: size, VolumeCapability: u.Capability()})
	if err != nil {
		return err
	}
	n, err := s.cluster.Node(u.Node)
	if err != nil {
		return err
	}
	_, err = n.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: u.ID, VolumePath: u.Target, StagingTargetPath: u.Staging, CapacityRange: size})
	if err != nil {
		return err
	}
	u.Size = res.GetCapacityBytes()
	now, err := filesystemSize(u.Target)
	if err != nil {
		return err
	}
	if now < before*3/2 {
		return fmt.Errorf("the filesystem of %s had %d bytes and has %d", u.Name, before, now)
	}
	s.printStepf("%-10s %d MiB, its filesystem %d MiB before and %d MiB now, %s", u.Name, u.Size/harness.Mi, before/harness.Mi, now/harness.Mi, s.elapsed(begin))
	return u.verify()
}

// filesystemSize returns the size of a filesystem in bytes.
func filesystemSize(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("measure the filesystem at %s: %w", path, err)
	}
	return int64(st.Blocks) * st.Bsize, nil //nolint:gosec // a filesystem's size
}
