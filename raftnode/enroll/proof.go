package enroll

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/holdfast-storage/holdfast/raftnode/enroll/enrollpb"
)

// The secret of a token never crosses the wire: its holder signs the request and what both ends of this very TLS connection
// know of it (RFC 5705). Who takes the call can neither use the token nor pass the proof on to another controller.

const (
	// proofKey is the metadata with the proof.
	proofKey = "holdfast-join-proof-bin"
	// channelLabel is that of the keying material, proofPrefix begins what is signed with the token's key, and
	// attestationPrefix what is signed with the CA's.
	channelLabel      = "EXPORTER-holdfast-join"
	proofPrefix       = "holdfast join proof 1\x00"
	attestationPrefix = "holdfast join attestation 1\x00"
	channelLen        = 32
)

// prover signs a request when the connection is known that it is sent on.
type prover struct {
	key ed25519.PrivateKey
	req *enrollpb.EnrollRequest
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (p *prover) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	info, _ := credentials.RequestInfoFromContext(ctx)
	text, err := provedText(info.AuthInfo, p.req)
	if err != nil {
		return nil, err
	}
	return map[string]string{proofKey: string(ed25519.Sign(p.key, text))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (*prover) RequireTransportSecurity() bool { return true }

func provedText(info credentials.AuthInfo, req *enrollpb.EnrollRequest) ([]byte, error) {
	over, ok := info.(credentials.TLSInfo)
	if !ok {
		return nil, errors.New("a join token is used over TLS only")
	}
	channel, err := over.State.ExportKeyingMaterial(channelLabel, nil, channelLen)
	if err != nil {
		return nil, fmt.Errorf("bind the use of a join token to the connection: %w", err)
	}
	return joinTexts(proofPrefix, channel, req.GetPublicKey(), []byte(req.GetTokenId()), []byte(req.GetRole()), []byte(req.GetName()), req.GetCertificateRequest()), nil
}

// proved tells whether who sent the call has the secret that belongs to the request's public key.
func proved(ctx context.Context, req *enrollpb.EnrollRequest) bool {
	from, _ := peer.FromContext(ctx)
	md, _ := metadata.FromIncomingContext(ctx)
	given := md.Get(proofKey)
	if from == nil || len(given) != 1 || len(req.GetPublicKey()) != ed25519.PublicKeySize {
		return false
	}
	text, err := provedText(from.AuthInfo, req)
	return err == nil && ed25519.Verify(req.GetPublicKey(), text, []byte(given[0]))
}

// attestedText is all that a response says: the CA attests it, so that no other controller can say it.
func attestedText(r *enrollpb.EnrollResponse) []byte {
	all := [][]byte{r.GetCertificate(), []byte(r.GetAddress())}
	for _, list := range [][][]byte{r.GetBundle(), bytesOf(r.GetRaftAddresses()), bytesOf(r.GetApiAddresses())} {
		all = append(all, joinTexts("", list...))
	}
	return joinTexts(attestationPrefix, all...)
}

func bytesOf(texts []string) (all [][]byte) {
	for _, t := range texts {
		all = append(all, []byte(t))
	}
	return all
}

// joinTexts puts the length before each, so that no two lists give the same.
func joinTexts(prefix string, texts ...[]byte) []byte {
	out := []byte(prefix)
	for _, t := range texts {
		out = append(binary.AppendUvarint(out, uint64(len(t))), t...)
	}
	return out
}
