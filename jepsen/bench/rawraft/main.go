// Command rawraft is the baseline of the commit figures: hashicorp/raft with a state machine that does
// nothing, behind the same gRPC service and the same TLS as Holdfast. It is not crash-safe; it is for
// `make bench` only.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

type options struct {
	dir, id, raftAddr, rpcAddr, peers, store string
	files                                    pki.Files
	lifetime                                 time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "data folder")
	flag.StringVar(&o.id, "id", "", "this server's id")
	flag.StringVar(&o.raftAddr, "raft", "", "Raft address")
	flag.StringVar(&o.rpcAddr, "rpc", "", "gRPC address")
	flag.StringVar(&o.peers, "peers", "", "id=address,... of all; the first bootstraps")
	flag.StringVar(&o.store, "log-store", "wal", "wal or boltdb")
	flag.StringVar(&o.files.Cert, "cert", "", "certificate")
	flag.StringVar(&o.files.Key, "key", "", "key")
	flag.StringVar(&o.files.CA, "ca", "", "CA")
	flag.DurationVar(&o.lifetime, "life", 30*time.Minute, "it ends by itself after this")
	flag.Parse()
	time.AfterFunc(o.lifetime, func() { os.Exit(0) })
	if err := serve(o); err != nil {
		fmt.Fprintln(os.Stderr, "rawraft:", err)
		os.Exit(1)
	}
}

func serve(o options) error {
	creds, err := pki.Load(o.files)
	if err != nil {
		return err
	}
	r, err := member(o, creds)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.rpcAddr)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(creds.Server(pki.Controller))))
	raftpb.RegisterMemberServer(s, &server{raft: r})
	return s.Serve(l)
}

func member(o options, creds *pki.Credentials) (*raft.Raft, error) {
	logs, stable, err := openStores(o)
	if err != nil {
		return nil, err
	}
	snapshots, err := raft.NewFileSnapshotStore(o.dir, 3, io.Discard)
	if err != nil {
		return nil, err
	}
	l, err := tls.Listen("tcp", o.raftAddr, creds.Server(pki.Controller))
	if err != nil {
		return nil, err
	}
	transport := raft.NewNetworkTransport(&streamLayer{Listener: l, client: creds.Client(pki.Controller)}, 3, 10*time.Second, io.Discard)
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(o.id)
	cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond
	cfg.MaxAppendEntries, cfg.TrailingLogs = 512, 16384
	cfg.LogOutput = io.Discard
	cached, err := raft.NewLogCache(4096, logs)
	if err != nil {
		return nil, err
	}
	r, err := raft.NewRaft(cfg, noopFSM{}, cached, stable, snapshots, transport)
	if err != nil {
		return nil, err
	}
	return r, bootstrap(r, o)
}
