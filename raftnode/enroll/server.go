package enroll

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/enroll/enrollpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// What anybody who reaches the listener can take of this process is bounded by these.
const (
	maxConnections     = 256 // of all peers
	maxPeerConnections = 32
	maxPeers           = 4096 // that are counted apart
	maxRequest         = 16 << 10
	maxHeaders         = 8 << 10
	maxAge             = 30 * time.Second // of a connection
	handshake          = 5 * time.Second
	perSecond          = 5 // requests of one peer, and of all whose tokens are good
	burst              = 20
	callTimeout        = 15 * time.Second
	// Validity is how long a certificate is good that a token brought.
	Validity = 90 * 24 * time.Hour
)

// Cluster is what the server needs of its controller's Raft member.
type Cluster interface {
	// Propose returns when the command is applied; a rejection is an error of type *fsm.Rejection.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// Read is linearizable.
	Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error)
}

// Config is what a server needs.
type Config struct {
	Cluster     Cluster
	Credentials *pki.Credentials // a controller's; they show the client that this is the cluster of its token
	Signer      *pki.Signer
	// Attestor says whom tokens are of that this cluster did not make; nil: none is taken.
	Attestor Attestor
	// Addresses returns the addresses of the members' Raft listeners and APIs.
	Addresses func(context.Context) (raft, api []string)
	// Error converts an error of the cluster to a gRPC status error.
	Error  func(error) error
	Logger *slog.Logger
}

// Server serves enrolment.
type Server struct {
	enrollpb.UnimplementedEnrollmentServer
	Config
	limits *limits
}

// NewServer makes the service, and the gRPC server that has nothing else. Its clients have no certificate: its limits are its
// own, and interceptors come before it.
func NewServer(c Config, interceptors ...grpc.UnaryServerInterceptor) (*Server, *grpc.Server) {
	s := &Server{Config: c, limits: newLimits()}
	g := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(c.Credentials.EnrollServer())), grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(2), grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxAge, MaxConnectionIdle: maxAge / 3, MaxConnectionAgeGrace: callTimeout}),
		grpc.ChainUnaryInterceptor(interceptors...),
	)
	enrollpb.RegisterEnrollmentServer(g, s)
	return s, g
}

// checkPeer counts the request, of whom nothing is known but the address.
func (s *Server) checkPeer(ctx context.Context) error {
	var from net.Addr
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr
	}
	return s.limits.checkPeer(from, time.Now())
}

// Enroll implements enrollpb.EnrollmentServer.
func (s *Server) Enroll(ctx context.Context, req *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error) {
	if err := s.checkPeer(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.enroll(ctx, req)
	if err != nil {
		return nil, s.refused(err, "token", fsm.Truncate(req.GetTokenId(), 32), "role", fsm.Truncate(req.GetRole(), 32), "name", fsm.Truncate(req.GetName(), 64))
	}
	s.Logger.Info("a certificate was issued for a join token", "token", req.GetTokenId(), "role", req.GetRole(), "name", req.GetName())
	return resp, nil
}

func (s *Server) enroll(ctx context.Context, req *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error) {
	public, keyHash, err := pki.ReadRequest(req.GetCertificateRequest())
	if err != nil {
		return nil, fsm.Reject(fsm.Invalid, "enrol %s/%s: %v", fsm.Truncate(req.GetRole(), 32), fsm.Truncate(req.GetName(), 64), err)
	}
	if !proved(ctx, req) {
		return nil, fsm.Reject(fsm.Unauthenticated, "use a join token: who asks did not prove, over this connection, that it has its secret")
	}
	use := &fsmpb.UseJoinToken{TokenId: req.GetTokenId(), SecretHash: hashOf(req.GetPublicKey()), Role: req.GetRole(), Name: req.GetName(), KeyHash: keyHash[:]}
	token, err := s.look(ctx, use)
	if err != nil {
		return nil, err
	}
	if err := s.checkCA(&token); err != nil {
		return nil, err
	}
	if err := s.limits.checkAll(time.Now()); err != nil {
		return nil, err
	}
	if err := s.bind(ctx, use); err != nil {
		return nil, err
	}
	if token, err = s.look(ctx, use); err != nil { // it is used now
		return nil, err
	}
	return s.issue(ctx, &token, public)
}

// refused logs why nobody gets a certificate, and returns it as a status.
func (s *Server) refused(err error, what ...any) error {
	s.Logger.Warn("an enrolment was refused", append(what, "why", err.Error())...)
	return s.Error(err)
}

// checkCA: the answer is attested by the CA that the token names, so that one must sign.
func (s *Server) checkCA(token *fsm.JoinToken) error {
	switch signs, err := s.Signer.Signs(token.CAPin); {
	case err != nil:
		return status.Errorf(codes.Unavailable, "use join token %s: %v", token.ID, err)
	case !signs:
		return fsm.Reject(fsm.Precondition, "use join token %s: it is for another CA than the one that signs here: give all controllers their certificates of the CA that signs, "+
			"with `holdfast ca rotate --switch`, then create another one with `holdfast tokens create`", token.ID)
	}
	return nil
}

// issue makes the certificate of a used token. It is the same one each time, so that a revocation of the first covers all.
func (s *Server) issue(ctx context.Context, token *fsm.JoinToken, public *ecdsa.PublicKey) (*enrollpb.EnrollResponse, error) {
	issued, err := s.Signer.Sign(&pki.Order{
		Identity: pki.Identity{Cluster: s.Credentials.Identity().Cluster, Role: pki.Role(token.Role), Name: token.Name},
		Public:   public, Serial: serialOf(token), Issued: token.UsedAt, Validity: Validity,
	}, token.CAPin)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	resp := &enrollpb.EnrollResponse{Certificate: issued.Cert, Bundle: issued.Bundle, Address: token.Address}
	resp.RaftAddresses, resp.ApiAddresses = s.Addresses(ctx)
	if resp.Attestation, err = issued.Attest(attestedText(resp)); err != nil {
		return nil, status.Errorf(codes.Unavailable, "attest the certificate: %v", err)
	}
	return resp, nil
}

// serialOf is the serial number of what a token brings to a key.
func serialOf(token *fsm.JoinToken) *big.Int {
	sum := hashOf(joinTexts("holdfast join serial 1\x00", []byte(token.ID), token.KeyHash))
	sum[0] &= 0x7f
	return new(big.Int).SetBytes(sum[:16])
}

// look decides on the state first, so that who has no good token can write nothing into the log.
func (s *Server) look(ctx context.Context, use *fsmpb.UseJoinToken) (token fsm.JoinToken, err error) {
	_, err = s.Cluster.Read(ctx, func(st *fsm.State) error {
		if rej := st.CheckJoinToken(st.Cluster().Time, use); rej != nil {
			return rej
		}
		of, _ := st.JoinToken(use.GetTokenId())
		token = *of
		return nil
	})
	return token, err
}

// bind has the log bind the token to the key: nothing is signed before.
func (s *Server) bind(ctx context.Context, use *fsmpb.UseJoinToken) error {
	_, err := s.Cluster.Propose(ctx, &fsmpb.Command{Actor: s.Credentials.Identity().Actor(), Body: &fsmpb.Command_UseJoinToken{UseJoinToken: use}})
	if err != nil {
		return fmt.Errorf("use join token %s: %w", use.GetTokenId(), err)
	}
	return nil
}
