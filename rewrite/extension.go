package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/alter"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Most migrations create plpgsql, uuid-ossp or pgcrypto. DSQL has parts of these extensions built in. Sluice answers
// CREATE, COMMENT ON and DROP EXTENSION of the three, and lists the supported functions in a NOTICE. uuid.go rewrites
// uuid_generate_v4().

// extensions has, for each extension whose CREATE EXTENSION Sluice answers, the detail text of the NOTICE.
var extensions = map[string]struct {
	severity finding.Severity
	detail   string
}{
	"plpgsql": {finding.Info, "DSQL runs functions in LANGUAGE sql only: CREATE FUNCTION ... LANGUAGE plpgsql and DO fail."},
	"uuid-ossp": {finding.Warning, "There is uuid_generate_v4(), which becomes gen_random_uuid(). There are not: uuid_generate_v1, uuid_generate_v1mc, " +
		"uuid_generate_v3, uuid_generate_v5, uuid_nil, uuid_ns_dns, uuid_ns_url, uuid_ns_oid, uuid_ns_x500."},
	"pgcrypto": {finding.Warning, "There is gen_random_uuid(), which is built in. There are not: digest, hmac, crypt, gen_salt, gen_random_bytes, " +
		"encrypt, decrypt, encrypt_iv, decrypt_iv, armor, dearmor, pgp_*."},
}

// missingFunctions has advice for each function of plpgsql, uuid-ossp and pgcrypto that DSQL does not have.
var missingFunctions = func() map[string]string {
	all := map[string]string{
		"uuid_generate_v4": "Write gen_random_uuid(); without quotes around its name, uuid_generate_v4() becomes that (" + ExtensionsKey + ").",
		"uuid_nil":         "Write '00000000-0000-0000-0000-000000000000'::uuid.",
		"digest":           "PostgreSQL's own functions are md5, sha224, sha256, sha384 and sha512.",
		"gen_random_bytes": "Make the bytes in the application.",
	}
	for names, instead := range map[string]string{
		"uuid_generate_v1 uuid_generate_v1mc":              "Write gen_random_uuid(), or make the UUID in the application.",
		"uuid_generate_v3 uuid_generate_v5":                "Make the UUID in the application.",
		"uuid_ns_dns uuid_ns_url uuid_ns_oid uuid_ns_x500": "Write the UUID of the name space as a constant.",
		"crypt gen_salt":                        "Hash passwords in the application.",
		"hmac":                                  "Compute it in the application.",
		"encrypt decrypt encrypt_iv decrypt_iv": "Encrypt in the application.",
		"armor dearmor pgp_armor_headers pgp_key_id":                  "Encrypt in the application.",
		"pgp_sym_encrypt pgp_sym_encrypt_bytea pgp_sym_decrypt":       "Encrypt in the application.",
		"pgp_sym_decrypt_bytea pgp_pub_encrypt pgp_pub_encrypt_bytea": "Encrypt in the application.",
		"pgp_pub_decrypt pgp_pub_decrypt_bytea":                       "Encrypt in the application.",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = instead
		}
	}
	return all
}()

// ExtensionsKey is the configuration key that sets Rules.Extensions.
const ExtensionsKey = "rewrite.extensions"

// MissingFunctionHint returns a hint for the server's error that a function does not exist. It returns "" if the
// function is not in missingFunctions.
func MissingFunctionHint(message string) string {
	name, found := strings.CutPrefix(message, "function ")
	if !found {
		return ""
	}
	name, _, _ = strings.Cut(name, "(")
	if instead := missingFunctions[baseRelationName(name)]; instead != "" {
		return "DSQL has no extensions, and so no function of this name. " + instead
	}
	return ""
}

// createExtension answers CREATE EXTENSION of plpgsql, uuid-ossp or pgcrypto.
func (r *rewriter) createExtension(p *statementPart) {
	name := p.node.Text("extname")
	known, ok := extensions[name]
	if !ok || !r.rules.Extensions {
		return
	}
	r.answerLocally(p, Answers, "CREATE EXTENSION")
	p.st.Notices = []Notice{{"extension \"" + name + "\" is not installed: DSQL has no extensions, and Sluice answers the statement", known.detail}}
	r.addFinding(finding.Handled(finding.Extension, finding.Answered, known.severity, "answered as done; a NOTICE names which of its functions there are", p.st.Start))
}

// commentExtension answers COMMENT ON EXTENSION of plpgsql, uuid-ossp or pgcrypto.
func (r *rewriter) commentExtension(p *statementPart) {
	name := p.node.Child("object").Text("sval")
	if _, ok := extensions[name]; !ok || !r.rules.Extensions {
		return
	}
	r.answerLocally(p, Answers, "COMMENT")
	p.st.Notices = []Notice{{Message: "extension \"" + name + "\" is not installed: the comment is not kept"}}
	r.addFinding(finding.Handled(finding.Extension, finding.Answered, finding.Info, "answered as done; the comment is not kept", p.st.Start))
}

// dropExtension answers DROP EXTENSION. With IF EXISTS Sluice accepts any extension, and otherwise only those in
// extensions.
func (r *rewriter) dropExtension(p *statementPart) {
	var names []string
	for object := range p.node.List("objects") {
		names = append(names, object.Text("sval"))
	}
	ifExists := p.node.Flag("missing_ok")
	unknown := slices.ContainsFunc(names, func(name string) bool { _, ok := extensions[name]; return !ok })
	if !r.rules.Extensions || unknown && !ifExists {
		return
	}
	r.answerLocally(p, Answers, "DROP EXTENSION")
	notice := "\" is not installed: nothing is dropped"
	if ifExists {
		notice = "\" does not exist, skipping"
	}
	for _, name := range names {
		p.st.Notices = append(p.st.Notices, Notice{Message: "extension \"" + name + notice})
	}
	r.addFinding(finding.Handled(finding.Extension, finding.Answered, finding.Info, "answered as done; there is nothing to drop", p.st.Start))
}

// rewriteExtension calls the rule for a statement about extensions, or for a DROP of other objects.
func (r *rewriter) rewriteExtension(p *statementPart) {
	object := parse.OBJECT_EXTENSION
	switch m := p.node; {
	case m.Is("CreateExtensionStmt"):
		r.createExtension(p)
	case m.Is("CommentStmt"):
		if parse.ObjectType(m.Integer("objtype")) == object {
			r.commentExtension(p)
		}
	case parse.ObjectType(m.Integer("remove_type")) == object:
		r.dropExtension(p)
	case parse.ObjectType(m.Integer("remove_type")) == parse.OBJECT_TYPE:
		r.applyDraft(p, (*alter.Draft).DropType)
	default:
		r.dropIndex(p)
	}
}
