package loop

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"

	"github.com/holdfast-storage/holdfast/kube/apitest"
	"github.com/holdfast-storage/holdfast/kube/plan"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

var metadataRole = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: plan.MetadataOwnerRole, UID: "role-1"}}

func fakeServices() dynamic.Interface {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{plan.SnapshotMetadataServices: "SnapshotMetadataServiceList"})
}

// metadataLoop is one whose CA file has this text.
func metadataLoop(t *testing.T, l *Loop, objects dynamic.Interface, text []byte) *Loop {
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	l.Dynamic, l.SnapshotMetadata = objects, plan.SnapshotMetadata{Address: "holdfast-snapshot-metadata.holdfast:6443", Audience: "backups", CAFile: file}
	return l
}

func newCA(t *testing.T) (certificate, key []byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	require.NoError(t, pki.MakeCA(dir, "holdfast"))
	certificate, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	key, err = os.ReadFile(filepath.Join(dir, "ca.key"))
	require.NoError(t, err)
	return certificate, key
}

func service(t *testing.T, objects dynamic.Interface) *unstructured.Unstructured {
	s, err := objects.Resource(plan.SnapshotMetadataServices).Get(t.Context(), plan.Driver, metav1.GetOptions{})
	require.NoError(t, err)
	return s
}

func caOf(t *testing.T, s *unstructured.Unstructured) string {
	text, _, err := unstructured.NestedString(s.Object, "spec", "caCert")
	require.NoError(t, err)
	certificates, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return string(certificates)
}

// The service is made, follows the CA certificate and who changes it by hand, and has no key even where the file has one.
func TestClientsFindChangedBlocksUnderTheCAOfNow(t *testing.T) {
	e, objects := newEnv(t, nil, metadataRole), fakeServices()
	first, key := newCA(t)
	l := metadataLoop(t, e.loop(), objects, append(key, first...))
	for range 2 {
		require.NoError(t, l.SyncSnapshotMetadata(t.Context()))
		s := service(t, objects)
		require.Equal(t, string(first), caOf(t, s))
		require.Equal(t, metadataRole.UID, s.GetOwnerReferences()[0].UID, "it goes with who serves them")
	}
	s := service(t, objects)
	s.SetLabels(map[string]string{"somebody": "else"})
	s.Object["spec"].(map[string]any)["address"] = "elsewhere:1"
	_, err := objects.Resource(plan.SnapshotMetadataServices).Update(t.Context(), s, metav1.UpdateOptions{})
	require.NoError(t, err)
	second, _ := newCA(t)
	require.NoError(t, os.WriteFile(l.SnapshotMetadata.CAFile, second, 0o600))
	require.NoError(t, l.SyncSnapshotMetadata(t.Context()))
	s = service(t, objects)
	require.Equal(t, string(second), caOf(t, s))
	require.Equal(t, "else", s.GetLabels()["somebody"])
	address, _, _ := unstructured.NestedString(s.Object, "spec", "address")
	require.Equal(t, l.SnapshotMetadata.Address, address)
}

// What others have put on the service, or a later CRD fills in by itself, is left there and no reason to write it again; an owner of before is.
func TestWhatOthersAddToTheServiceIsNotWrittenAway(t *testing.T) {
	e, objects := newEnv(t, nil, metadataRole), fakeServices()
	first, _ := newCA(t)
	l := metadataLoop(t, e.loop(), objects, first)
	require.NoError(t, l.SyncSnapshotMetadata(t.Context()))
	s := service(t, objects)
	s.Object["spec"].(map[string]any)["protocol"] = "gRPC"
	theirs := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "backups", UID: "namespace-1"}
	s.SetOwnerReferences(append(s.GetOwnerReferences(), theirs))
	_, err := objects.Resource(plan.SnapshotMetadataServices).Update(t.Context(), s, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Nil(t, l.SnapshotMetadata.NextService(s, metadataRole.UID, first))
	again := l.SnapshotMetadata.NextService(s, "role-2", first)
	require.Equal(t, "gRPC", again.Object["spec"].(map[string]any)["protocol"])
	require.Equal(t, []types.UID{theirs.UID, "role-2"}, uids(again.GetOwnerReferences()))
}

func uids(refs []metav1.OwnerReference) (all []types.UID) {
	for _, r := range refs {
		all = append(all, r.UID)
	}
	return all
}

// When changed blocks are served no more, the role goes first: a loop that is still there makes nothing that would stay.
func TestWithoutTheRoleNoServiceIsMade(t *testing.T) {
	e, objects := newEnv(t, nil), fakeServices()
	first, _ := newCA(t)
	require.ErrorContains(t, metadataLoop(t, e.loop(), objects, first).SyncSnapshotMetadata(t.Context()), plan.MetadataOwnerRole)
	_, err := objects.Resource(plan.SnapshotMetadataServices).Get(t.Context(), plan.Driver, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
}

// A CA that cannot be read changes nothing, and is said.
func TestACAThatCannotBeReadLeavesTheService(t *testing.T) {
	e, objects := newEnv(t, nil, metadataRole), fakeServices()
	first, key := newCA(t)
	l := metadataLoop(t, e.loop(), objects, first)
	require.NoError(t, l.SyncSnapshotMetadata(t.Context()))
	for _, text := range []string{"", "no PEM", string(key), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		require.NoError(t, os.WriteFile(l.SnapshotMetadata.CAFile, []byte(text), 0o600))
		require.ErrorContains(t, l.SyncSnapshotMetadata(t.Context()), "CA certificate of changed blocks")
		require.Equal(t, string(first), caOf(t, service(t, objects)))
	}
	require.NoError(t, os.Remove(l.SnapshotMetadata.CAFile))
	require.ErrorContains(t, l.SyncSnapshotMetadata(t.Context()), "read the CA certificate of changed blocks")
	require.Equal(t, string(first), caOf(t, service(t, objects)))
}

// metadataCRD has the fields that clients read.
const metadataCRD = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "snapshotmetadataservices.cbt.storage.k8s.io",
  "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}}, "spec": {"group": "cbt.storage.k8s.io", "scope": "Cluster",
  "names": {"kind": "SnapshotMetadataService", "plural": "snapshotmetadataservices"}, "versions": [{"name": "v1beta1", "served": true, "storage": true,
  "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "required": ["address", "audience", "caCert"], "properties": {
    "address": {"type": "string"}, "audience": {"type": "string"}, "caCert": {"type": "string", "format": "byte"}}}}}}}]}}`

// A real API server takes what the loop writes; without the CRD the error says that it may be missing.
func TestARealAPIServerTakesTheSnapshotMetadataService(t *testing.T) {
	config := apitest.Start(t)
	kube, e := apitest.Client(t, config), newEnv(t, nil)
	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	_, err = kube.RbacV1().ClusterRoles().Create(t.Context(), metadataRole.DeepCopy(), metav1.CreateOptions{})
	require.NoError(t, err)
	first, _ := newCA(t)
	l := metadataLoop(t, e.loop(), objects, first)
	l.Kube = kube
	require.ErrorContains(t, l.SyncSnapshotMetadata(t.Context()), "whose CRD may be missing")
	crd := &unstructured.Unstructured{}
	require.NoError(t, crd.UnmarshalJSON([]byte(metadataCRD)))
	_, err = objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Create(t.Context(), crd, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return l.SyncSnapshotMetadata(t.Context()) == nil }, patience, patience/600)
	require.Equal(t, string(first), caOf(t, service(t, objects)))
	version := service(t, objects).GetResourceVersion()
	require.NoError(t, l.SyncSnapshotMetadata(t.Context()))
	require.Equal(t, version, service(t, objects).GetResourceVersion(), "what is right is not written again")
	second, _ := newCA(t)
	require.NoError(t, os.WriteFile(l.SnapshotMetadata.CAFile, second, 0o600))
	require.NoError(t, l.SyncSnapshotMetadata(t.Context()))
	require.Equal(t, string(second), caOf(t, service(t, objects)))
}
