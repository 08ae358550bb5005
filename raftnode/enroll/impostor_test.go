package enroll

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/enroll/enrollpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// impostor has a certificate of a controller of the cluster, which may be revoked, and does not have the CA's key.
type impostor struct {
	enrollpb.UnimplementedEnrollmentServer
	answer func(context.Context, *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error)
	heard  []string
}

func (i *impostor) Enroll(ctx context.Context, req *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error) {
	all, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	i.heard = append(i.heard, string(all))
	md, _ := metadata.FromIncomingContext(ctx)
	for _, values := range md {
		i.heard = append(i.heard, values...)
	}
	return i.answer(ctx, req)
}

func (l *lab) serveImpostor(i *impostor) string {
	l.t.Helper()
	files, err := pki.Issue(l.caDir(), filepath.Join(l.dir, "revoked"), pki.Identity{Role: pki.Controller, Name: "revoked"}, time.Hour)
	require.NoError(l.t, err)
	creds, err := pki.Load(files)
	require.NoError(l.t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(l.t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(creds.EnrollServer())))
	enrollpb.RegisterEnrollmentServer(server, i)
	go func() { _ = server.Serve(listener) }()
	l.t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// forge answers with a certificate of a CA of its own, beside the cluster's.
func (l *lab) forge(_ context.Context, req *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error) {
	own := filepath.Join(l.t.TempDir(), "ca")
	if err := pki.MakeCA(own, clusterName); err != nil {
		return nil, err
	}
	signer, err := pki.NewSigner(own, clusterName)
	if err != nil {
		return nil, err
	}
	public, hash, err := pki.ReadRequest(req.GetCertificateRequest())
	if err != nil {
		return nil, err
	}
	files, err := pki.Issue(own, filepath.Join(l.t.TempDir(), "probe"), pki.Identity{Role: pki.Viewer, Name: "probe"}, time.Hour)
	if err != nil {
		return nil, err
	}
	creds, err := pki.Load(files)
	if err != nil {
		return nil, err
	}
	pin, err := creds.IssuerPin()
	if err != nil {
		return nil, err
	}
	id := pki.Identity{Cluster: clusterName, Role: pki.Node, Name: req.GetName()}
	issued, err := signer.Sign(&pki.Order{Identity: id, Public: public, Serial: serialOf(&fsm.JoinToken{ID: "x", KeyHash: hash[:]}), Issued: time.Now(), Validity: time.Hour}, pin[:])
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(l.caDir(), "ca.crt"))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	resp := &enrollpb.EnrollResponse{Certificate: issued.Cert, Bundle: append(issued.Bundle, block.Bytes)}
	resp.Attestation, err = issued.Attest(attestedText(resp))
	return resp, err
}

func TestAnImpostorIsNeitherToldTheSecretNorBelieved(t *testing.T) {
	l := newLab(t)
	real, pin := l.serve("c1"), l.pin()
	relay := func(ctx context.Context, req *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error) {
		conn, err := grpc.NewClient("passthrough:///"+real, grpc.WithTransportCredentials(credentials.NewTLS(pki.PinnedClient(pin, clusterName))))
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		md, _ := metadata.FromIncomingContext(ctx)
		return enrollpb.NewEnrollmentClient(conn).Enroll(metadata.AppendToOutgoingContext(ctx, proofKey, md.Get(proofKey)[0]), req)
	}
	other := l.token("n2", real)
	silent := func(context.Context, *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error) {
		return &enrollpb.EnrollResponse{}, nil
	}
	for name, tc := range map[string]struct {
		answer func(context.Context, *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error)
		is     error
		want   string
	}{
		"it passes the call on":  {relay, ErrRefused, "did not prove, over this connection"},
		"it has a CA of its own": {l.forge, ErrUnavailable, "did not attest its answer"},
		"it says nothing":        {silent, ErrUnavailable, "did not attest its answer"},
		"it passes on another's answer": {func(ctx context.Context, req *enrollpb.EnrollRequest) (*enrollpb.EnrollResponse, error) {
			resp, err := other.askOne(ctx, real, req.GetCertificateRequest())
			if err == nil {
				resp.Address = "10.6.6.6"
			}
			return resp, err
		}, ErrUnavailable, "did not attest its answer"},
	} {
		t.Run(name, func(t *testing.T) {
			i := &impostor{answer: tc.answer}
			token := l.token("n1", l.serveImpostor(i))
			files := fresh(t)
			for range 2 {
				err := Join(t.Context(), token, files, time.Now())
				require.ErrorIs(t, err, tc.is)
				require.ErrorContains(t, err, tc.want)
				require.NoFileExists(t, files.CA)
				require.NoFileExists(t, files.Cert)
			}
			require.NotEmpty(t, i.heard)
			for _, heard := range i.heard {
				require.NotContains(t, heard, string(token.Secret))
			}
			kept, _ := l.st.JoinToken(token.ID)
			require.Zero(t, kept.Used)
			token.Addresses = []string{real}
			require.NoError(t, Join(t.Context(), token, files, time.Now()), "the token is good still")
		})
	}
}

// Who knows all that the log has of a token, and does not have its secret, cannot use it.
func TestTheHashOfASecretIsOfNoUse(t *testing.T) {
	l := newLab(t)
	token := l.token("n1", l.serve("c1"))
	request, err := pki.MakeRequest(fresh(t).Key)
	require.NoError(t, err)
	conn, err := grpc.NewClient("passthrough:///"+token.Addresses[0], grpc.WithTransportCredentials(credentials.NewTLS(pki.PinnedClient(token.Pin, clusterName))))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	req := &enrollpb.EnrollRequest{
		TokenId: token.ID, PublicKey: ed25519.NewKeyFromSeed(token.Secret).Public().(ed25519.PublicKey), Role: "node", Name: "n1", CertificateRequest: request,
	}
	client, entries := enrollpb.NewEnrollmentClient(conn), l.index
	for range 2 {
		_, err = client.Enroll(t.Context(), req)
		require.Equal(t, codes.Unauthenticated, status.Code(err), "no proof")
		_, err = client.Enroll(t.Context(), req, grpc.PerRPCCredentials(&prover{key: ed25519.NewKeyFromSeed(make([]byte, secretLen)), req: req}))
		require.Equal(t, codes.Unauthenticated, status.Code(err), "a proof with another key")
	}
	require.Equal(t, entries, l.index)
}
