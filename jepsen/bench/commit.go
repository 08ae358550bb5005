//go:build bench

package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// benchHost is a host without a process: volumes placed on it stay Creating, so that a benchmark
// measures the log and the state and no disk work.
const benchHost = "bench"

// ports reads the ports that `holdfast dev` keeps in its directory.
func ports(dir string) (map[string]map[string]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "dev.json"))
	if err != nil {
		return nil, err
	}
	var s struct {
		Ports map[string]map[string]int `json:"ports"`
	}
	return s.Ports, json.Unmarshal(text, &s)
}

// credentialsOf returns a controller's credentials, as `holdfast dev` issued them.
func credentialsOf(dir, id string) (*pki.Credentials, pki.Files, error) {
	files := pki.FilesIn(filepath.Join(dir, "pki", "controller-"+id), pki.Controller, id)
	creds, err := pki.Load(files)
	return creds, files, err
}

// dial connects to a Member service, without a target member.
func dial(creds *pki.Credentials, address string) (raftpb.MemberClient, func(), error) {
	return dialWith(credentials.NewTLS(creds.Client(pki.Controller)), address)
}

// newCommand returns a new command by an actor.
func newCommand(actor string) *fsmpb.Command {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return &fsmpb.Command{RequestId: id, Actor: actor, ProposedIndex: lastSeenIndex.Load()}
}

// lastSeenIndex is the newest log index that this program has received: a command proposed with an
// index far behind it is rejected as too old.
var lastSeenIndex atomic.Uint64

// registerHost registers benchHost.
func registerHost(ctx context.Context, m raftpb.MemberClient) error {
	cmd := newCommand("node/" + benchHost)
	cmd.Body = hostRegistration()
	return propose(ctx, m, cmd)
}

func hostRegistration() *fsmpb.Command_RegisterNode {
	return &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: benchHost, HostId: "host-of-bench", BootId: "boot-of-bench", FeatureLevel: fsm.MaxFeatureLevel,
		Pools: []*fsmpb.Pool{{PoolId: "pool-of-bench", Backend: "loopfile", CapacityBytes: 1 << 58, OvercommitPercent: 2000}},
	}}
}

// withSnapshot reports whether a member's directory has a Raft snapshot of at least the index.
func withSnapshot(dir string, index uint64) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*", "meta.json")) // the pattern is well formed
	for _, path := range found {
		var term, at, stamp uint64
		_, err := fmt.Sscanf(filepath.Base(filepath.Dir(path))+"/", "%d-%d-%d/", &term, &at, &stamp)
		if err == nil && at >= index {
			return true
		}
	}
	return false
}

var created atomic.Uint64

// createVolume is a realistic command: a name as the provisioner makes it, one
// capability, a required topology.
func createVolume() *fsmpb.Command {
	cmd := newCommand("controller/bench")
	cmd.Body = &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: "hf-" + uuid.NewString(), Name: fmt.Sprintf("pvc-%032x", created.Add(1)),
		Fingerprint: []byte("0123456789abcdef"), RequiredBytes: 1 << 30, Replicas: 1,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
		Requisite:    []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: "topology.holdfast.storage/node", Value: benchHost}}}},
	}}
	return cmd
}

// idleCommand is a command that changes nothing; it is only committed.
func idleCommand() *fsmpb.Command {
	cmd := newCommand("controller/bench")
	cmd.Body = &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: "hf-00000000-0000-4000-8000-000000000000"}}
	return cmd
}

func propose(ctx context.Context, m raftpb.MemberClient, cmd *fsmpb.Command) error {
	answer, err := m.Propose(ctx, &raftpb.ProposeRequest{Command: cmd})
	if err != nil {
		return err
	}
	if answer.GetOutcome() == nil {
		return errors.New("not applied: " + answer.GetMessage())
	}
	if r := answer.GetOutcome().GetRejection(); r != nil {
		return errors.New(r.GetMessage())
	}
	lastSeenIndex.Store(answer.GetOutcome().GetIndex()) // it may go back a little
	return nil
}

// leaderOf asks all members until one answers that it leads.
func leaderOf(ctx context.Context, members []raftpb.MemberClient) (int, error) {
	for ctx.Err() == nil {
		for i, m := range members {
			ask, cancel := context.WithTimeout(ctx, time.Second)
			s, err := m.Status(ask, &raftpb.StatusRequest{})
			cancel()
			if err == nil && s.GetRole() == "leader" {
				return i, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, fmt.Errorf("no member leads: %w", ctx.Err())
}
