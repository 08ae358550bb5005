package bundle

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Client is a client of the bundle, that answers as the controllers did: the history, the state at an index (0: the
// newest), the doctor's findings and the audit. stop ends it.
func (b *Bundle) Client(at uint64) (c *admin.Client, stop func()) {
	return admin.NewLocalClient(&server{bundle: b, at: at})
}

// server answers from a bundle. What is not in one is UNIMPLEMENTED.
type server struct {
	adminpb.UnimplementedAdminServer
	bundle *Bundle
	at     uint64
}

// Doctor answers what was found when the bundle was written.
func (s *server) Doctor(context.Context, *adminpb.DoctorRequest) (*adminpb.DoctorResponse, error) {
	resp := &adminpb.DoctorResponse{}
	return resp, refusal(s.bundle.answer(doctorFile, resp))
}

// Audit answers what was found when the bundle was written.
func (s *server) Audit(context.Context, *adminpb.AuditRequest) (*adminpb.AuditResponse, error) {
	resp := &adminpb.AuditResponse{}
	return resp, refusal(s.bundle.answer(auditFile, resp))
}

// State streams the state at the index.
func (s *server) State(req *adminpb.StateRequest, out adminpb.Admin_StateServer) error {
	live, err := s.live()
	if err != nil {
		return err
	}
	return live.State(req, out)
}

// History streams the bundle's journal.
func (s *server) History(req *adminpb.HistoryRequest, out adminpb.Admin_HistoryServer) error {
	live, err := s.live()
	if err != nil {
		return err
	}
	return live.History(req, out)
}

// VerifyHistory checks the bundle's journal against its state.
func (s *server) VerifyHistory(ctx context.Context, req *adminpb.VerifyHistoryRequest) (*adminpb.VerifyHistoryResponse, error) {
	live, err := s.live()
	if err != nil {
		return nil, err
	}
	return live.VerifyHistory(ctx, req)
}

// live is the controllers' own server, of the bundle's state and journal.
func (s *server) live() (*admin.Server, error) {
	state, err := s.bundle.StateAt(s.at)
	if err != nil {
		return nil, refusal(err)
	}
	return admin.NewServer(admin.Options{Cluster: &cluster{bundle: s.bundle, state: state}, Name: s.bundle.Manifest.Log.Member, Error: refusal}), nil
}

// refusal is an answer that no other server would give otherwise.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// cluster is a bundle as the API's server sees a Raft member.
type cluster struct {
	bundle *Bundle
	state  *fsm.State
}

var errReadOnly = errors.New("a bundle is read only")

func (c *cluster) Propose(context.Context, *fsmpb.Command) (*fsmpb.Outcome, error) {
	return nil, errReadOnly
}

func (c *cluster) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	return c.state.Cluster().Index, fn(c.state)
}

func (c *cluster) View(fn func(*fsm.State) error) error                   { return fn(c.state) }
func (c *cluster) Fork() *fsm.State                                       { return c.state.Fork() }
func (c *cluster) Members(context.Context, uint64) []admin.Member         { return nil }
func (c *cluster) StoredDump(uint64, io.Writer) (index uint64, err error) { return 0, nil }

// History yields the journal; first is from where it is in the bundle.
func (c *cluster) History(from, to uint64, fn func(admin.Entry) bool) (first uint64, err error) {
	log := c.bundle.Manifest.Log
	return max(log.From, log.KnownFrom), c.bundle.entries(from, to, fn)
}
