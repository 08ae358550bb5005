package plan

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// SnapshotMetadataServices is the resource by which clients find who serves changed blocks: cluster-wide, and named as the driver.
var SnapshotMetadataServices = schema.GroupVersionResource{Group: "cbt.storage.k8s.io", Version: "v1beta1", Resource: "snapshotmetadataservices"}

// SnapshotMetadata is where changed blocks are served.
type SnapshotMetadata struct {
	Address  string // host:port
	Audience string // of the tokens that clients send
	CAFile   string // PEM certificates by which clients know that address; it may be replaced at any time
}

// NextService is the SnapshotMetadataService as it should be: a new one where there is none (a nil there), or there with what differs; nil where
// there is nothing to do. It belongs to the CSIDriver, with which it goes. caCert is PEM.
func (m SnapshotMetadata) NextService(there *unstructured.Unstructured, driver types.UID, caCert []byte) *unstructured.Unstructured {
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	if there != nil {
		wanted = there.DeepCopy()
	}
	wanted.SetGroupVersionKind(SnapshotMetadataServices.GroupVersion().WithKind("SnapshotMetadataService"))
	wanted.SetName(Driver)
	wanted.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver", Name: Driver, UID: driver}})
	wanted.Object["spec"] = map[string]any{"address": m.Address, "audience": m.Audience, "caCert": base64.StdEncoding.EncodeToString(caCert)}
	if there != nil && equality.Semantic.DeepEqual(there.Object, wanted.Object) {
		return nil
	}
	return wanted
}

// Certificates are the certificates of a PEM text and nothing else of it, so that no key is handed on. A text without any, or with one that
// cannot be read, is an error.
func Certificates(text []byte) (certificates []byte, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("a certificate of it cannot be read: %w", err)
		}
		certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if certificates == nil {
		return nil, errors.New("it has no certificate in PEM")
	}
	return certificates, nil
}
