package plan

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
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

// MetadataOwnerRole is the ClusterRole of who serves changed blocks. It is there as long as they are served, and the SnapshotMetadataService goes
// with it.
const MetadataOwnerRole = "holdfast-snapshot-metadata"

// NextService is the SnapshotMetadataService as it should be: a new one where there is none (a nil there), or there with what differs; nil where
// there is nothing to do. What it has beside that is others', or the API server's, which would put it there again. role is the uid of
// MetadataOwnerRole; caCert is PEM.
func (m SnapshotMetadata) NextService(there *unstructured.Unstructured, role types.UID, caCert []byte) *unstructured.Unstructured {
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	if there != nil {
		wanted = there.DeepCopy()
	}
	wanted.SetGroupVersionKind(SnapshotMetadataServices.GroupVersion().WithKind("SnapshotMetadataService"))
	wanted.SetName(Driver)
	own(wanted, metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: MetadataOwnerRole, UID: role})
	spec, _ := wanted.Object["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	spec["address"], spec["audience"], spec["caCert"] = m.Address, m.Audience, base64.StdEncoding.EncodeToString(caCert)
	wanted.Object["spec"] = spec
	if there != nil && equality.Semantic.DeepEqual(there.Object, wanted.Object) {
		return nil
	}
	return wanted
}

// own makes it belong to that owner too, and no more to an earlier one of its name.
func own(object *unstructured.Unstructured, owner metav1.OwnerReference) {
	refs := object.GetOwnerReferences()
	if slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }) {
		return
	}
	refs = slices.DeleteFunc(refs, func(r metav1.OwnerReference) bool { return r.Kind == owner.Kind && r.Name == owner.Name })
	object.SetOwnerReferences(append(refs, owner))
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
