//go:build bench

package bench

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

const (
	listedVolumes   = 100_000
	listedSnapshots = 10_000
	pageSize        = 500
)

// BenchmarkList lists 100,000 volumes and 10,000 snapshots in pages of 500: a late
// page must cost what an early one does.
func BenchmarkList(b *testing.B) {
	c := startHoldfast(b, patientWithHosts)
	all := members(b, c)
	require.NoError(b, registerHost(b.Context(), all[0]))
	ids := populate(b, all[0])
	controller := controllerOf(b, c)
	for range b.N {
		pages := volumePages(b, controller)
		require.Len(b, pages, listedVolumes/pageSize)
		b.ReportMetric(ms(middle(pages[:20])), "volumes-first-pages-ms")
		b.ReportMetric(ms(middle(pages[len(pages)-20:])), "volumes-last-pages-ms")
		b.ReportMetric(float64(middle(pages[len(pages)-20:]))/float64(middle(pages[:20])), "volumes-last/first")
		pages = snapshotPages(b, controller, ids)
		half := len(pages) / 2
		b.ReportMetric(float64(middle(pages[half:]))/float64(middle(pages[:half])), "snapshots-last/first")
		b.ReportMetric(ms(middle(pages)), "snapshots-page-ms")
	}
}

func controllerOf(b *testing.B, c *harness.Cluster) csi.ControllerClient {
	b.Helper()
	conn, err := harness.Dial(endpoint(b, c, "c1"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return csi.NewControllerClient(conn)
}

// populate creates volumes and snapshots of a host without a process, and sends that host's reports.
func populate(b *testing.B, m raftpb.MemberClient) []string {
	b.Helper()
	ids := make([]string, listedVolumes)
	atOnce(b, listedVolumes, func(i int) error {
		cmd := createVolume()
		ids[i] = cmd.GetCreateVolume().GetVolumeId()
		return propose(b.Context(), m, cmd)
	})
	report(b, m, ids, func(id string) *fsmpb.Observation {
		return &fsmpb.Observation{VolumeId: id, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: gi}}}
	})
	snapshots := make([]string, listedSnapshots)
	atOnce(b, listedSnapshots, func(i int) error {
		snapshots[i] = "hs-" + uuid.NewString()
		cmd := newCommand("controller/bench")
		cmd.Body = &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{SnapshotId: snapshots[i], Name: fmt.Sprintf("snapshot-%d", i), SourceVolumeId: ids[i]}}
		return propose(b.Context(), m, cmd)
	})
	report(b, m, snapshots, func(id string) *fsmpb.Observation {
		return &fsmpb.Observation{SnapshotId: id, Fact: &fsmpb.Observation_SnapshotCut{SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: gi, CutUnixNano: time.Now().UnixNano()}}}
	})
	return snapshots
}

func atOnce(b *testing.B, n int, do func(i int) error) {
	b.Helper()
	var wg sync.WaitGroup
	for worker := range 256 {
		wg.Go(func() {
			for i := worker; i < n; i += 256 {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func report(b *testing.B, m raftpb.MemberClient, ids []string, saw func(id string) *fsmpb.Observation) {
	b.Helper()
	for some := range slices.Chunk(ids, 1000) {
		cmd := newCommand("node/" + benchHost)
		r := &fsmpb.Report{NodeId: benchHost, HostId: "host-of-bench", BootId: "boot-of-bench"}
		for _, id := range some {
			r.Observations = append(r.Observations, saw(id))
		}
		cmd.Body = &fsmpb.Command_Report{Report: r}
		require.NoError(b, propose(b.Context(), m, cmd))
	}
}

func volumePages(b *testing.B, c csi.ControllerClient) (took []time.Duration) {
	b.Helper()
	for token := ""; len(took) == 0 || token != ""; {
		began := time.Now()
		page, err := c.ListVolumes(b.Context(), &csi.ListVolumesRequest{MaxEntries: pageSize, StartingToken: token})
		took = append(took, time.Since(began))
		require.NoError(b, err)
		token = page.GetNextToken()
	}
	return took
}

func snapshotPages(b *testing.B, c csi.ControllerClient, all []string) (took []time.Duration) {
	b.Helper()
	found := 0
	for token := ""; len(took) == 0 || token != ""; {
		began := time.Now()
		page, err := c.ListSnapshots(b.Context(), &csi.ListSnapshotsRequest{MaxEntries: pageSize, StartingToken: token})
		took = append(took, time.Since(began))
		require.NoError(b, err)
		found += len(page.GetEntries())
		token = page.GetNextToken()
	}
	require.Equal(b, len(all), found)
	return took
}
