package admin

import (
	"bufio"
	"bytes"
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// dumpPart is how many bytes of a dump are in one message.
const dumpPart = 256 << 10

// Dump streams a state: this member's own as it is now, after a linearizable read where there is a quorum, or one that it
// stores as a Raft snapshot.
func (s *Server) Dump(req *adminpb.DumpRequest, out adminpb.Admin_DumpServer) error {
	to := &dumpStream{out: out}
	w := bufio.NewWriterSize(to, dumpPart)
	if below := req.GetStored(); below != 0 {
		if _, err := s.Cluster.StoredDump(below, w); err != nil {
			return s.Error(err)
		}
		return w.Flush()
	}
	state := s.forkWithin(out.Context(), statusTimeout)
	to.index = state.Cluster().Index
	if err := state.WriteDump(w, 0); err != nil {
		return err
	}
	return w.Flush()
}

// forkWithin returns a copy of a state that has every entry acknowledged before the call; without a quorum that answers in
// time, of what this member knows, which is worth having too.
func (s *Server) forkWithin(ctx context.Context, within time.Duration) *fsm.State {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	state, err := s.fork(ctx, false)
	if err != nil {
		return s.Cluster.Fork()
	}
	return state
}

// dumpStream sends what is written to it.
type dumpStream struct {
	out   adminpb.Admin_DumpServer
	index uint64 // for the first part
}

func (d *dumpStream) Write(part []byte) (int, error) {
	if err := d.out.Send(&adminpb.DumpResponse{Part: bytes.Clone(part), Index: d.index}); err != nil {
		return 0, err
	}
	return len(part), nil
}
