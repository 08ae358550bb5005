package pki

import (
	"fmt"
	"time"
)

// PlanRenew plans to issue again the certificates in the folders that expire within a time, each for a
// validity. The folders' bundles name the CA before a certificate of it is used.
func PlanRenew(caDir string, folders []string, within, validity time.Duration) (*FilePlan, error) {
	ca, err := loadCA(caDir)
	if err != nil {
		return nil, err
	}
	leaves, err := leavesIn(folders)
	if err != nil {
		return nil, err
	}
	if validity <= within {
		return nil, fmt.Errorf("renew what expires within %s: a validity of %s would be renewed again at once", within, validity)
	}
	p := &FilePlan{Next: "give each host its files; running processes take up new ones by themselves"}
	for _, leaf := range leaves {
		if err := checkIssue(leaf.cert.Identity, ca.cluster, validity); err != nil {
			return nil, fmt.Errorf("renew %s: %w", leaf.Cert, err)
		}
		due := time.Until(leaf.cert.NotAfter) < within
		p.add(!due, func() error { return leaf.issue(caDir, validity) }, "renew "+leaf.cert.Actor(), leaf.Cert,
			"serial %s, good until %s", leaf.cert.Serial, leaf.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return p, nil
}

// issue replaces the pair by another one of the same identity.
func (l *leafFiles) issue(caDir string, validity time.Duration) error {
	ca, err := loadCA(caDir)
	if err != nil {
		return err
	}
	cert, key, err := signCertificate(leafTemplate(l.cert.Identity, validity, ca.Leaf), &ca.Certificate)
	if err != nil {
		return err
	}
	if err := addToBundle(l.CA, ca.all...); err != nil {
		return err
	}
	return replacePair(l.Files, cert, key)
}
