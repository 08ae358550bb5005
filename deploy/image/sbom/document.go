package sbom

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"regexp"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Source is what a document is made of.
type Source struct {
	Version string    // of Holdfast
	Time    time.Time // the document's
	Status  string    // dpkg's list; empty where there are no packages
	Program string    // the file of the Go program
}

// Document is the list as SPDX 2.3 in JSON, the same for the same source.
func Document(source Source) ([]byte, error) {
	modules, err := goModules(source.Program)
	if err != nil {
		return nil, err
	}
	packages, err := debianPackages(source.Status)
	if err != nil {
		return nil, err
	}
	root := newPackage("holdfast", "holdfast", source.Version, "pkg:golang/github.com/holdfast-storage/holdfast@"+source.Version)
	root.PackageLicenseDeclared = "Apache-2.0"
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "holdfast-" + source.Version,
		CreationInfo: &v2_3.CreationInfo{Created: source.Time.UTC().Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Organization", Creator: "Holdfast"}}},
		Packages:     append(append([]*v2_3.Package{root}, packages...), modules...),
	}
	doc.Relationships = relationships(doc.Packages)
	return encode(doc)
}

// encode gives the document a name in the world that follows from its content.
func encode(doc *v2_3.Document) ([]byte, error) {
	var content bytes.Buffer
	if err := json.Write(doc, &content); err != nil {
		return nil, fmt.Errorf("write the list of what is in the image: %w", err)
	}
	doc.DocumentNamespace = fmt.Sprintf("https://github.com/holdfast-storage/holdfast/spdx/%x", sha256.Sum256(content.Bytes()))
	content.Reset()
	if err := json.Write(doc, &content, json.Indent(" ")); err != nil {
		return nil, fmt.Errorf("write the list of what is in the image: %w", err)
	}
	return content.Bytes(), nil
}

// relationships say that the document is about the first package, and that it contains the others.
func relationships(packages []*v2_3.Package) []*v2_3.Relationship {
	root := common.MakeDocElementID("", string(packages[0].PackageSPDXIdentifier))
	all := []*v2_3.Relationship{{RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: root, Relationship: common.TypeRelationshipDescribe}}
	for _, p := range packages[1:] {
		part := common.MakeDocElementID("", string(p.PackageSPDXIdentifier))
		all = append(all, &v2_3.Relationship{RefA: root, RefB: part, Relationship: common.TypeRelationshipContains})
	}
	return all
}

// notInIDs are the characters that an identifier of SPDX may not have.
var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func newPackage(id, name, version, purl string) *v2_3.Package {
	return &v2_3.Package{
		PackageSPDXIdentifier: common.ElementID("Package-" + notInIDs.ReplaceAllString(id, "-")), PackageName: name, PackageVersion: version,
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl}},
	}
}
