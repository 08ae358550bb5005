package certify

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// purpose begins what is signed.
const purpose = "holdfast certify report\n"

// Sealed is a report with its signature, as a file has it. What is signed is the report as it is written, without white space
// between its parts.
type Sealed struct {
	Report      json.RawMessage `json:"report"`
	Certificate string          `json:"certificate"` // the signer's, and those of CAs that came with its key, in PEM
	Signature   []byte          `json:"signature"`   // ECDSA with SHA-256, in base64
}

// Seal signs a report: sign is given the text.
func Seal(r *Report, sign func([]byte) (pki.Signature, error)) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	signed, err := sign(append([]byte(purpose), text...))
	if err != nil {
		return nil, err
	}
	var chain bytes.Buffer
	for _, der := range signed.Chain {
		if err := pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return nil, fmt.Errorf("write the certificate: %w", err)
		}
	}
	out, err := json.MarshalIndent(Sealed{Report: text, Certificate: chain.String(), Signature: signed.Value}, "", "  ")
	return append(out, '\n'), err
}

// Open reads a sealed report, and says who signed it. The error says what of it is not to be believed.
func Open(file []byte, trust *pki.Trust) (*Report, pki.Certificate, error) {
	var s Sealed
	if err := json.Unmarshal(file, &s); err != nil {
		return nil, pki.Certificate{}, fmt.Errorf("it is no report of holdfast certify: %w", err)
	}
	var text bytes.Buffer
	text.WriteString(purpose)
	var r Report
	if err := errors.Join(json.Compact(&text, s.Report), json.Unmarshal(s.Report, &r)); err != nil {
		return nil, pki.Certificate{}, fmt.Errorf("it is no report of holdfast certify: %w", err)
	}
	if !s.isWhole(file) {
		return nil, pki.Certificate{}, errors.New("it has more than one report with its certificate and its signature: it was altered")
	}
	if r.Format != Format {
		return nil, pki.Certificate{}, fmt.Errorf("the report has format %d, and this build reads %d", r.Format, Format)
	}
	by, err := trust.CheckSignature(pki.Signature{Chain: s.chain(), Value: s.Signature}, text.Bytes(), r.Ended)
	switch {
	case err != nil:
		return nil, by, err
	case by.Role != pki.Admin:
		return nil, by, fmt.Errorf("%s signed it, and only an admin can have made the volumes", by.Actor())
	case by.Actor() != r.By || by.Cluster != r.Cluster:
		return nil, by, fmt.Errorf("%s signed what says that it is of %s in cluster %s", by.Identity, r.By, r.Cluster)
	}
	return &r, by, nil
}

// isWhole tells whether the file has nothing else: of two members of one name, also in other letters, other readers take the other one.
func (s *Sealed) isWhole(file []byte) bool {
	var have bytes.Buffer
	again, err := json.Marshal(s)
	return errors.Join(err, json.Compact(&have, file)) == nil && bytes.Equal(again, have.Bytes())
}

func (s *Sealed) chain() (der [][]byte) {
	for block, rest := pem.Decode([]byte(s.Certificate)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			der = append(der, block.Bytes)
		}
	}
	return der
}
