package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// spdxDocument is a document of SPDX 2.3, with the fields in use.
type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	DataLicense   string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string          `json:"SPDXID"`
	Name      string          `json:"name"`
	Version   string          `json:"versionInfo"`
	Supplier  string          `json:"supplier"`
	Download  string          `json:"downloadLocation"`
	Analyzed  bool            `json:"filesAnalyzed"`
	Concluded string          `json:"licenseConcluded"`
	Declared  string          `json:"licenseDeclared"`
	Copyright string          `json:"copyrightText"`
	File      string          `json:"packageFileName,omitempty"`
	Checksums []spdxChecksum  `json:"checksums,omitempty"`
	Refs      []spdxReference `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxReference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const none = "NOASSERTION"

// identifiers maps the kinds that classifyLicence returns to SPDX identifiers. A BSD licence is missing here, since
// its number of clauses (two or three) decides its identifier.
var identifiers = map[string]string{
	"Apache-2.0": "Apache-2.0", "MIT": "MIT", "ISC": "ISC", "PostgreSQL": "PostgreSQL", "MPL-2.0": "MPL-2.0",
	"GPL with Bison exception":               "GPL-3.0-or-later WITH Bison-exception-2.2",
	"GPL with GCC Runtime Library Exception": "GPL-3.0-or-later WITH GCC-exception-3.1",
}

// writeBOM writes the list of a program's parts beside the program.
func writeBOM(root, program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	names, err := librariesInMap(program + ".map")
	if err != nil {
		return err
	}
	found, err := gatherLicences(root, names)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	made, err := commitTime(root)
	if err != nil {
		return err
	}
	versions, err := libraryVersions(program + ".libraries")
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	b := bomBuilder{found: found, sum: hex.EncodeToString(sum[:]), arch: buildSetting(info, "GOARCH")}
	b.addProgram(filepath.Base(program), version, made)
	b.addDependency("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "The Go standard library and runtime", "pkg:golang/stdlib@"+strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.addDependency(m.Path, m.Version, m.Path, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	for _, name := range names {
		v, ok := versions[name]
		if !ok {
			return fmt.Errorf("%s.libraries has no version of %s", program, name)
		}
		b.addDependency(name, v.version, name, fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", v.pkg, v.version, b.arch))
	}
	text, err := json.MarshalIndent(b.doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(program+".spdx.json", append(text, '\n'), 0o644)
}

type libraryVersion struct{ pkg, version string }

// libraryVersions reads the versions of the C libraries that .ci/build has recorded: name, package, version.
func libraryVersions(file string) (map[string]libraryVersion, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	versions := map[string]libraryVersion{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %q", file, line)
		}
		versions[f[0]] = libraryVersion{f[1], f[2]}
	}
	return versions, nil
}

// commitTime returns the time of the checked-out commit, which is the same at each build.
func commitTime(root string) (string, error) {
	cmd := exec.Command("git", "log", "-1", "--format=%ct")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git log: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339), err
}

func buildSetting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// bomBuilder builds an SPDX document.
type bomBuilder struct {
	doc       spdxDocument
	found     *licenceFindings
	sum, arch string
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func (b *bomBuilder) addProgram(name, version, made string) {
	const at = "https://github.com/sluice-proxy/sluice"
	p := spdxPackage{ID: "SPDXRef-program", Name: name, Version: version, Supplier: "Organization: The Sluice authors",
		Download: at, Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: "Copyright 2026 The Sluice authors",
		File: name, Checksums: []spdxChecksum{{"SHA256", b.sum}},
		Refs: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/github.com/sluice-proxy/sluice@" + version}}}
	b.doc = spdxDocument{Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name: name + "-" + version + "-linux-" + b.arch, Namespace: at + "/spdx/" + name + "/" + version + "/" + b.arch + "/" + b.sum,
		Creation: spdxCreation{made, []string{"Tool: sluice-licences"}}, Packages: []spdxPackage{p},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", p.ID}}}
}

// addDependency adds a part that the linker put into the program. covers is the part's name in the licenceFindings.
func (b *bomBuilder) addDependency(name, version, covers, purl string) {
	licence := b.licenceExpression(covers)
	p := spdxPackage{ID: "SPDXRef-" + notInID.ReplaceAllString(name, "-"), Name: name, Version: version, Supplier: none, Download: none,
		Concluded: licence, Declared: licence, Copyright: none, Refs: []spdxReference{{"PACKAGE-MANAGER", "purl", purl}}}
	b.doc.Packages = append(b.doc.Packages, p)
	b.doc.Relationships = append(b.doc.Relationships, spdxRelationship{"SPDXRef-program", "STATIC_LINK", p.ID})
}

// licenceExpression returns the SPDX expression for all licence texts of a module or a library.
func (b *bomBuilder) licenceExpression(covers string) string {
	var ids []string
	for _, t := range b.found.licences {
		if !slices.ContainsFunc(t.covers, func(c string) bool { return c == covers || strings.HasPrefix(c, covers+"/") }) {
			continue
		}
		for _, kind := range t.kinds {
			id, ok := identifiers[kind]
			if !ok {
				id = bsdIdentifier(t.body)
			}
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return none
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND ")
}

func bsdIdentifier(body string) string {
	if strings.Contains(normalizeText(body), "neither the name") || strings.Contains(normalizeText(body), "contributors may be used to endorse") {
		return "BSD-3-Clause"
	}
	return "BSD-2-Clause"
}
