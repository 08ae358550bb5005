package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func call[R any](t *testing.T, client *admin.Client, fn func(context.Context, adminpb.AdminClient) (R, error)) (resp R, err error) {
	t.Helper()
	err = client.TryEach(t.Context(), func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = fn(ctx, api)
		return err
	})
	return resp, err
}

// A viewer's certificate is revoked by its serial number: its open connection ends, the next one is refused, and a
// certificate that is issued after that is good.
func TestARevokedOperatorIsCutOffOfTheAPI(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	alice := b.client(c, pki.Admin, "alice")
	bob, err := pki.Load(b.issue(pki.Viewer, "bob"))
	require.NoError(t, err)
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Minute}, Config: bob.Client(pki.Controller)}
	open, err := dialer.DialContext(t.Context(), "tcp", c.apiListener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = open.Close() }()
	serial := bob.Certificate().Serial
	require.Eventually(t, func() bool { // the server keeps it when its handshake has ended
		list, err := call(t, alice, func(ctx context.Context, api adminpb.AdminClient) (*adminpb.CertificatesResponse, error) {
			return api.Certificates(ctx, &adminpb.CertificatesRequest{})
		})
		require.NoError(t, err)
		for _, seen := range list.GetCertificates() {
			if seen.GetSerial() == serial {
				return seen.GetSeenBy()[0] == "c1"
			}
		}
		return false
	}, time.Minute, 10*time.Millisecond)

	for range 2 {
		resp, err := call(t, alice, func(ctx context.Context, api adminpb.AdminClient) (*adminpb.RevocationPlanResponse, error) {
			return api.ChangeRevocation(ctx, &adminpb.RevocationPlanRequest{Verb: "revoke", Role: "viewer", Name: "bob", Serials: []string{serial}, Reason: "left"})
		})
		require.NoError(t, err)
		require.True(t, resp.GetDone())
	}
	require.NoError(t, open.SetReadDeadline(time.Now().Add(time.Minute)))
	for err == nil {
		_, err = open.Read(make([]byte, 1<<10)) // the server's greeting, and then the end
	}
	var late net.Error
	require.False(t, errors.As(err, &late) && late.Timeout(), "the open connection ends")
	endpoint := []string{c.apiListener.Addr().String()}
	_, _, err = admin.NewClient(endpoint, bob.Client(pki.Controller)).Status(t.Context())
	require.Error(t, err)
	_, _, err = b.client(c, pki.Viewer, "bob").Status(t.Context())
	require.NoError(t, err, "it is another certificate")
}
