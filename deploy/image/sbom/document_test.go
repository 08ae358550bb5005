package sbom

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/stretchr/testify/require"
)

const status = "Package: lvm2\nVersion: 2.03.16-2\nArchitecture: amd64\nDescription: tools\n Version: not this\nStatus: install ok installed\n\n" +
	"Package: libc6\nSource: glibc (2.36)\nVersion: 1:2.36+deb12~u1\nArchitecture: amd64\n\n"

func TestDocumentNamesPackagesAndModules(t *testing.T) {
	program := filepath.Join(t.TempDir(), "image")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "..").CombinedOutput()
	require.NoError(t, err, "%s", out)
	source := Source{Version: "v1.2.3", Time: time.Unix(1_700_000_000, 0), Status: status, Program: program}
	first, err := Document(source)
	require.NoError(t, err)
	second, err := Document(source)
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))

	doc, err := json.Read(bytes.NewReader(first))
	require.NoError(t, err)
	require.Equal(t, "2023-11-14T22:13:20Z", doc.CreationInfo.Created)
	locators, ids := map[string]string{}, map[common.ElementID]bool{}
	for _, p := range doc.Packages {
		require.False(t, ids[p.PackageSPDXIdentifier], p.PackageSPDXIdentifier)
		ids[p.PackageSPDXIdentifier] = true
		locators[p.PackageName] = p.PackageExternalReferences[0].Locator
	}
	require.Equal(t, "pkg:deb/debian/lvm2@2.03.16-2?arch=amd64&distro=debian-12", locators["lvm2"])
	require.Equal(t, "pkg:deb/debian/libc6@1%3A2.36%2Bdeb12~u1?arch=amd64&distro=debian-12", locators["libc6"])
	require.Contains(t, locators["github.com/spdx/tools-golang"], "@v0.5.")
	require.Contains(t, locators, "stdlib")
	require.Len(t, doc.Relationships, len(doc.Packages), "one says what the document is about, the others what is in it")

	source.Version = "v1.2.4"
	third, err := Document(source)
	require.NoError(t, err)
	other, err := json.Read(bytes.NewReader(third))
	require.NoError(t, err)
	require.NotEqual(t, doc.DocumentNamespace, other.DocumentNamespace)
}

func TestDocumentRefuses(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	_, err = Document(Source{Program: program, Status: "Package: a\nVersion: 1\n"})
	require.ErrorContains(t, err, "without name, version or architecture")
	_, err = Document(Source{Program: "document_test.go", Status: status})
	require.ErrorContains(t, err, "document_test.go")
}
