package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"go.etcd.io/bbolt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// openStores opens the stores that Holdfast uses, without Holdfast's wrappers.
func openStores(o options) (raft.LogStore, raft.StableStore, error) {
	if err := os.MkdirAll(filepath.Join(o.dir, "wal"), 0o700); err != nil {
		return nil, nil, err
	}
	stable, err := raftboltdb.New(raftboltdb.Options{
		Path:        filepath.Join(o.dir, "raft.db"),
		BoltOptions: &bbolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
	})
	if err != nil || o.store == "boltdb" {
		return stable, stable, err
	}
	logs, err := wal.Open(filepath.Join(o.dir, "wal"))
	return logs, stable, err
}

func bootstrap(r *raft.Raft, o options) error {
	var servers []raft.Server
	for p := range strings.SplitSeq(o.peers, ",") {
		id, addr, _ := strings.Cut(p, "=")
		servers = append(servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(addr)})
	}
	if string(servers[0].ID) != o.id {
		return nil
	}
	return r.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
}

// streamLayer is Raft over TLS.
type streamLayer struct {
	net.Listener
	client *tls.Config
}

func (s *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, "tcp", string(address), s.client)
}

// noopFSM is a state machine without a state.
type noopFSM struct{}

func (noopFSM) Apply(*raft.Log) any                 { return nil }
func (noopFSM) Snapshot() (raft.FSMSnapshot, error) { return noopFSM{}, nil }
func (noopFSM) Restore(r io.ReadCloser) error       { return r.Close() }
func (noopFSM) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (noopFSM) Release()                            {}

type server struct {
	raftpb.UnimplementedMemberServer
	raft *raft.Raft
}

// Propose appends the command as Holdfast's leader does: decoded, stamped, encoded again.
func (s *server) Propose(_ context.Context, req *raftpb.ProposeRequest) (*raftpb.ProposeResponse, error) {
	req.GetCommand().ProposedAt = time.Now().UnixNano()
	entry, err := proto.Marshal(req.GetCommand())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	f := s.raft.Apply(entry, 10*time.Second)
	if err := f.Error(); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &raftpb.ProposeResponse{Outcome: &fsmpb.Outcome{Index: f.Index()}}, nil
}

// Status answers which member leads.
func (s *server) Status(context.Context, *raftpb.StatusRequest) (*raftpb.StatusResponse, error) {
	_, leader := s.raft.LeaderWithID()
	return &raftpb.StatusResponse{Role: strings.ToLower(s.raft.State().String()), LeaderId: string(leader)}, nil
}
