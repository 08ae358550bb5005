package raftnode

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// benchCluster has the timeouts and sizes of a production cluster.
func benchCluster(b *testing.B) *testCluster {
	b.Helper()
	c := newThreeMembers(b, func(cfg *Config) {
		cfg.HeartbeatTimeout, cfg.SegmentSize, cfg.CheckpointEvery = 500*time.Millisecond, 64<<20, 256
	})
	c.members[0].mustPropose(b, "bench")
	return c
}

// BenchmarkPropose measures commits per second with a number of proposals in flight, at the leader and at a follower.
func BenchmarkPropose(b *testing.B) {
	c := benchCluster(b)
	for _, inflight := range []int{1, 64, 256} {
		for _, where := range []string{"leader", "follower"} {
			b.Run(fmt.Sprintf("%d-at-the-%s", inflight, where), func(b *testing.B) {
				n := c.leader()
				if where == "follower" {
					n = c.followers()[0]
				}
				var next atomic.Int64
				inParallel(b, inflight, func() error {
					_, err := n.Propose(b.Context(), createVolume(next.Add(1), b.N))
					return err
				})
			})
		}
	}
}

// BenchmarkRead measures linearizable reads per second with a number of reads in flight.
func BenchmarkRead(b *testing.B) {
	c := benchCluster(b)
	for _, inflight := range []int{1, 64} {
		for _, where := range []string{"leader", "follower"} {
			b.Run(fmt.Sprintf("%d-at-the-%s", inflight, where), func(b *testing.B) {
				n := c.leader()
				if where == "follower" {
					n = c.followers()[0]
				}
				inParallel(b, inflight, func() error {
					_, err := n.Read(b.Context(), func(*fsm.State) error { return nil })
					return err
				})
			})
		}
	}
}

// BenchmarkIdle measures the processor time of three members that nobody calls; one iteration is a second.
func BenchmarkIdle(b *testing.B) {
	benchCluster(b)
	before := processorTime(b)
	b.ResetTimer()
	for range b.N {
		time.Sleep(time.Second)
	}
	b.ReportMetric(1000*(processorTime(b)-before).Seconds()/b.Elapsed().Seconds(), "cpu-ms/s")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func inParallel(b *testing.B, inflight int, do func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, inflight)
	for range inflight {
		go func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range inflight {
		require.NoError(b, <-done)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// createVolume is a CreateVolume of ordinary size; a rejected command costs as much as an accepted one.
func createVolume(i int64, run int) *fsmpb.Command {
	return &fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: fmt.Sprintf("hf-00000000-0000-4000-%04x-%012x", run%0x10000, i), Name: fmt.Sprintf("pvc-%d-%d", run, i),
		Fingerprint: []byte("0123456789abcdef0123456789abcdef"), RequiredBytes: 1 << 20, Replicas: 1,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
	}}}
}
