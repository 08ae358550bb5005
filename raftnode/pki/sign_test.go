package pki

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signer is an operator's credentials, and what others trust.
func signer(t *testing.T, cluster string, validity time.Duration) (*Credentials, *Trust) {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca")
	require.NoError(t, MakeCA(ca, cluster))
	files, err := Issue(ca, filepath.Join(t.TempDir(), "certs"), Identity{Role: Admin, Name: "ann"}, validity)
	require.NoError(t, err)
	creds, err := Load(files)
	require.NoError(t, err)
	trust, err := TrustOf(ca)
	require.NoError(t, err)
	return creds, trust
}

func TestASignatureSaysWhoSignedAndIsOfOneText(t *testing.T) {
	creds, trust := signer(t, "one", time.Hour)
	text := []byte("a text\nwith lines")
	for range 2 {
		s, err := creds.Sign(text)
		require.NoError(t, err)
		for range 2 {
			by, err := trust.CheckSignature(s, text, time.Now())
			require.NoError(t, err)
			require.Equal(t, "admin/ann", by.Actor())
		}
		for i := range text {
			changed := bytes.Clone(text)
			changed[i] ^= 1
			_, err := trust.CheckSignature(s, changed, time.Now())
			require.ErrorIs(t, err, ErrAltered)
		}
		for i := range s.Value {
			changed := Signature{Chain: s.Chain, Value: bytes.Clone(s.Value)}
			changed.Value[i] ^= 1
			_, err := trust.CheckSignature(changed, text, time.Now())
			require.ErrorIs(t, err, ErrAltered)
		}
	}
}

func TestWhichSignersAreNotBelieved(t *testing.T) {
	creds, trust := signer(t, "one", time.Hour)
	text := []byte("a text")
	s, err := creds.Sign(text)
	require.NoError(t, err)
	_, otherCA := signer(t, "one", time.Hour)
	_, otherCluster := signer(t, "two", time.Hour)
	ca := Signature{Chain: [][]byte{trust.cas[0].Raw}, Value: s.Value}
	for name, tc := range map[string]struct {
		trust *Trust
		s     Signature
		at    time.Time
		says  string
	}{
		"no certificate":         {trust, Signature{Value: s.Value}, time.Now(), "has no certificate"},
		"no certificate at all":  {trust, Signature{Chain: [][]byte{{1}}, Value: s.Value}, time.Now(), "read the signer's certificate"},
		"after its certificate":  {trust, s, time.Now().Add(2 * time.Hour), "was not valid on"},
		"before its certificate": {trust, s, time.Now().Add(-2 * time.Hour), "was not valid on"},
		"another CA":             {otherCA, s, time.Now(), "not of a CA of cluster one that is trusted here"},
		"another cluster's":      {otherCluster, s, time.Now(), "not of a CA of cluster two that is trusted here"},
		"the CA itself":          {trust, ca, time.Now(), "signs no texts"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := tc.trust.CheckSignature(tc.s, text, tc.at)
				require.ErrorContains(t, err, tc.says)
			}
		})
	}
}

func TestASignatureHoldsNoSecret(t *testing.T) {
	creds, _ := signer(t, "one", time.Hour)
	s, err := creds.Sign([]byte("x"))
	require.NoError(t, err)
	key, err := readKey(creds.files.Key)
	require.NoError(t, err)
	secret, err := key.Bytes()
	require.NoError(t, err)
	for _, part := range append(s.Chain, s.Value) {
		require.NotContains(t, string(part), string(secret))
	}
}

func TestAnExpiredCertificateSignsNothing(t *testing.T) {
	creds, _ := signer(t, "one", time.Hour)
	expired := *creds.current.cert.Leaf
	expired.NotAfter = time.Now().Add(-time.Second)
	creds.current.cert.Leaf = &expired
	_, err := creds.Sign([]byte("x"))
	require.ErrorContains(t, err, "expired on")
}
