package pki

import "time"

// Authority is a cluster's CA with its key, in memory alone.
type Authority struct {
	ca    *issuer
	where string
}

// ParseAuthority reads the content of the two files of MakeCA, in PEM, which a Secret has, say: where says so in errors. No error has
// any of the key.
func ParseAuthority(where string, certificates, key []byte) (*Authority, error) {
	ca, err := parseCA(where, [][]byte{certificates, key})
	if err != nil {
		return nil, err
	}
	return &Authority{ca: ca, where: where}, nil
}

// Trust are its CAs, the one that signs first.
func (a *Authority) Trust() *Trust { return a.ca.trust() }

// Issue is as the function of that name.
func (a *Authority) Issue(outDir string, id Identity, validity time.Duration) (Files, error) {
	return a.ca.issue(a.where, outDir, id, validity)
}
