package drbd

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/fsm"
)

// keyFile is the host's X25519 private key in its data directory, 32 bytes.
const keyFile = "replication.key"

// secretBytes becomes 62 hexadecimal digits: DRBD takes less than 64.
const secretBytes = 31

// OpenKey reads the host's key, and creates it at the first start. Its public half is registered
// in the log; the private one never leaves the file.
func OpenKey(dir string) (*ecdh.PrivateKey, error) {
	path := filepath.Join(dir, keyFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key for replication: %w", err)
	}
	key, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return nil, fmt.Errorf("read the key for replication %s: it is not whole", path)
	}
	return key, nil
}

func makeKey(path string) (*ecdh.PrivateKey, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for replication: %w", err)
	}
	if err := durablefile.Write(path, key.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("keep the key for replication: %w", err)
	}
	return key, nil
}

// SharedSecret returns the secret by which the two hosts of a volume authenticate each other, in
// hexadecimal digits. Both derive the same from their own private and the other's public key, so
// that no secret is in the log.
func SharedSecret(own *ecdh.PrivateKey, peer []byte, id fsm.VolumeID) (string, error) {
	public, err := ecdh.X25519().NewPublicKey(peer)
	if err != nil {
		return "", fmt.Errorf("the peer's public key for %s: %w", id, err)
	}
	common, err := own.ECDH(public)
	if err != nil {
		return "", fmt.Errorf("agree with the peer on the secret of %s: %w", id, err)
	}
	secret, err := hkdf.Key(sha256.New, common, nil, "holdfast replication "+string(id), secretBytes)
	if err != nil {
		return "", fmt.Errorf("derive the secret of %s: %w", id, err)
	}
	return hex.EncodeToString(secret), nil
}
