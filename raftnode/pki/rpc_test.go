package pki

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestPeerWithoutAHandshakeIsUnauthenticated(t *testing.T) {
	_, err := Peer(t.Context())
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}
