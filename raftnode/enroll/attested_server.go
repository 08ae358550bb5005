package enroll

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/enroll/enrollpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// Attestor asks an authority of whom a token is that it gave to a node.
type Attestor interface {
	// Attest answers whom the token is of. An error that wraps ErrNotAttested is the authority's no; any other one says that it
	// could not be asked. No error holds anything of the token.
	Attest(ctx context.Context, token string) (*Attested, error)
}

// Attested is what an authority says of a token.
type Attested struct {
	Node    string    // for which it is
	By      string    // the authority, and whom it names as the holder; for people
	Expires time.Time // of the token, by the authority's clock
}

// ErrNotAttested is wrapped by errors of tokens that are not good, or not for a node.
var ErrNotAttested = errors.New("the token is not attested")

// EnrollAttested implements enrollpb.EnrollmentServer.
func (s *Server) EnrollAttested(ctx context.Context, req *enrollpb.AttestedRequest) (*enrollpb.EnrollResponse, error) {
	if s.Attestor == nil {
		return nil, status.Error(codes.Unimplemented, "enrol: this controller takes join tokens only; start it with --enroll-service-account")
	}
	if err := s.checkPeer(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	use, resp, err := s.enrollAttested(ctx, req)
	if err != nil {
		return nil, s.refused(err, "name", fsm.Truncate(req.GetName(), 64))
	}
	s.Logger.Info("a certificate was issued for an attested token", "token", use.GetTokenId(), "name", use.GetName(), "attested_by", use.GetAttestedBy())
	return resp, nil
}

func (s *Server) enrollAttested(ctx context.Context, req *enrollpb.AttestedRequest) (*fsmpb.UseAttestedToken, *enrollpb.EnrollResponse, error) {
	public, keyHash, err := pki.ReadRequest(req.GetCertificateRequest())
	if err != nil {
		return nil, nil, fsm.Reject(fsm.Invalid, "enrol node/%s: %v", fsm.Truncate(req.GetName(), 64), err)
	}
	of, err := s.attest(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	if err := s.limits.checkAll(time.Now()); err != nil {
		return nil, nil, err
	}
	pin, err := s.Signer.Pin()
	if err != nil {
		return nil, nil, status.Errorf(codes.Unavailable, "enrol node/%s: %v", of.Node, err)
	}
	use := newUse(of, req.GetToken(), keyHash[:], pin[:])
	if err := s.bindAttested(ctx, use); err != nil {
		return nil, nil, err
	}
	token, err := s.usedToken(ctx, use)
	if err != nil {
		return nil, nil, err
	}
	resp, err := s.issue(ctx, &token, public)
	return use, resp, err
}

// attest asks the authority, and holds what it says against the name that the host has for itself.
func (s *Server) attest(ctx context.Context, req *enrollpb.AttestedRequest) (*Attested, error) {
	of, err := s.Attestor.Attest(ctx, req.GetToken())
	switch {
	case errors.Is(err, ErrNotAttested):
		return nil, fsm.Reject(fsm.Unauthenticated, "enrol node/%s: %v", fsm.Truncate(req.GetName(), 64), err)
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "enrol node/%s: ask whose token it is: %v", fsm.Truncate(req.GetName(), 64), err)
	case of.Node != req.GetName():
		return nil, fsm.Reject(fsm.Precondition, "enrol node/%s: the token is of node %s: start this host with --node-id %s, or give it its own token", fsm.Truncate(req.GetName(), 64), of.Node, of.Node)
	}
	return of, nil
}

// newUse is the command that binds the token to a key. A token that would be good for longer than the log keeps one in mind is
// good for that long: behind it, its authority has a newer one.
func newUse(of *Attested, token string, keyHash, pin []byte) *fsmpb.UseAttestedToken {
	sum := sha256.Sum256([]byte(token))
	id := sha256.Sum256(joinTexts("holdfast attested token 1\x00", sum[:]))
	ttl := min(max(time.Until(of.Expires), fsm.MinJoinTokenTTL), fsm.MaxJoinTokenTTL)
	return &fsmpb.UseAttestedToken{
		TokenId: hex.EncodeToString(id[:idLen]), SecretHash: sum[:], Name: of.Node, KeyHash: keyHash, CaPin: pin, Ttl: int64(ttl), AttestedBy: of.By,
	}
}

// bindAttested has the log bind the token to the key, once. It decides on the state first, so that who is refused, or asks again,
// writes nothing into the log.
func (s *Server) bindAttested(ctx context.Context, use *fsmpb.UseAttestedToken) error {
	known := false
	_, err := s.Cluster.Read(ctx, func(st *fsm.State) error {
		if rej := st.CheckAttestedToken(st.Cluster().Time, use); rej != nil {
			return rej
		}
		_, known = st.JoinToken(use.GetTokenId())
		return nil
	})
	if err != nil || known {
		return err
	}
	_, err = s.Cluster.Propose(ctx, &fsmpb.Command{Actor: s.Credentials.Identity().Actor(), Body: &fsmpb.Command_UseAttestedToken{UseAttestedToken: use}})
	if err != nil {
		return fmt.Errorf("enrol node/%s: %w", use.GetName(), err)
	}
	return nil
}

// usedToken reads the token as it was bound. An operator who revoked the node since is obeyed: nothing is signed yet.
func (s *Server) usedToken(ctx context.Context, use *fsmpb.UseAttestedToken) (token fsm.JoinToken, err error) {
	_, err = s.Cluster.Read(ctx, func(st *fsm.State) error {
		if rej := st.CheckAttestedToken(st.Cluster().Time, use); rej != nil {
			return rej
		}
		of, known := st.JoinToken(use.GetTokenId())
		if !known {
			return fsm.Reject(fsm.Busy, "enrol node/%s: its token expired meanwhile: ask again with another one", use.GetName())
		}
		token = *of
		return nil
	})
	return token, err
}
