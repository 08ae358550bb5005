// Package enroll gives a host that joins its certificate: a controller with the CA's key signs for who has the secret of
// a join token. The log decides about the token, before anything is signed.
package enroll

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/raftnode/enroll/enrollpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const (
	// tokenPrefix begins the text of a token and is its version.
	tokenPrefix = "hfjoin1_"
	// checksumLen is how much of a SHA-256 tells a token that was cut off or mistyped.
	checksumLen = 4
	secretLen   = 32
	idLen       = 8
	maxToken    = 4096
)

// Token is what its maker hands to the host that is to join. Its text is a secret.
type Token struct {
	ID, Cluster string
	Secret      []byte // the seed of an Ed25519 key: it proves that a host has it, and never leaves it
	Pin         pki.Pin
	Role        pki.Role
	Name        string
	Addresses   []string // of enrolment listeners
}

// NewSecret draws the id and the secret of a token.
func NewSecret() (id string, secret []byte, err error) {
	drawn := make([]byte, idLen+secretLen)
	if _, err := rand.Read(drawn); err != nil {
		return "", nil, fmt.Errorf("draw the secret of a token: %w", err)
	}
	return hex.EncodeToString(drawn[:idLen]), drawn[idLen:], nil
}

// SecretHash is what of a secret may be in the log: the SHA-256 of its public key.
func SecretHash(secret []byte) []byte {
	return hashOf(ed25519.NewKeyFromSeed(secret).Public().(ed25519.PublicKey))
}

func hashOf(public []byte) []byte {
	sum := sha256.Sum256(public)
	return sum[:]
}

// Text is the token as one printable argument.
func (t *Token) Text() (string, error) {
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(&enrollpb.JoinToken{
		Id: t.ID, Secret: t.Secret, CaPin: t.Pin[:], Cluster: t.Cluster, Role: string(t.Role), Name: t.Name, Addresses: t.Addresses,
	})
	if err != nil {
		return "", fmt.Errorf("write a join token: %w", err)
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(content, checksum(content)...)), nil
}

func checksum(content []byte) []byte {
	sum := sha256.Sum256(content)
	return sum[:checksumLen]
}

// errToken does not have the text: it may hold a secret.
var errToken = errors.New("it is no join token as `holdfast tokens create` prints it, or not all of it")

// ParseToken reads a token's text. The error holds nothing of it.
func ParseToken(text string) (*Token, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), tokenPrefix)
	content, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil || len(text) > maxToken || len(content) < checksumLen {
		return nil, errToken
	}
	content, sum := content[:len(content)-checksumLen], content[len(content)-checksumLen:]
	var of enrollpb.JoinToken
	if !bytes.Equal(sum, checksum(content)) || proto.Unmarshal(content, &of) != nil || len(of.GetCaPin()) != len(pki.Pin{}) || len(of.GetSecret()) != secretLen {
		return nil, errToken
	}
	t := &Token{ID: of.GetId(), Cluster: of.GetCluster(), Secret: of.GetSecret(), Pin: pki.Pin(of.GetCaPin()), Role: pki.Role(of.GetRole()), Name: of.GetName(), Addresses: of.GetAddresses()}
	if err := t.identity().Check(); err != nil {
		return nil, fmt.Errorf("the join token: %w", err)
	}
	return t, nil
}

func (t *Token) identity() pki.Identity {
	return pki.Identity{Cluster: t.Cluster, Role: t.Role, Name: t.Name}
}
