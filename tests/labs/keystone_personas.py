"""The users of the lab Keystone: one for each role and scope, with their projects.

    keystone_personas.py URL FILE           makes them in a new Keystone and writes them to FILE
    keystone_personas.py list FILE          their names
    keystone_personas.py env FILE PERSONA   a persona's settings for the command line clients
"""

import json
import sys
import time
import urllib.error
import urllib.request

ROLES = ("admin", "manager", "member", "reader", "service")
PROJECTS = ("service", "owner-a", "owner-b", "lessee-a", "lessee-b", "outsider")


class Keystone:
    def __init__(self, url):
        self.url = url
        self.token = None
        self.taken = 0.0

    def call(self, method, path, body=None, token=None):
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                raw = answer.read()
                return answer.headers, json.loads(raw) if raw else {}
        except urllib.error.HTTPError as error:
            if error.code == 409:
                return error.headers, {}
            raise SystemExit(f"{method} {path}: {error.code} {error.read()[:400]!r}") from error

    def log_in(self, user, password, scope):
        auth = {"identity": {"methods": ["password"], "password": {"user": {
            "name": user, "domain": {"id": "default"}, "password": password}}}, "scope": scope}
        return self.call("POST", "/v3/auth/tokens", {"auth": auth})[0]["X-Subject-Token"]

    def admin(self, method, path, body=None):
        # Tokens of a lab may live for seconds only.
        if time.monotonic() - self.taken > 1.5 or self.token is None:
            self.token = self.log_in("admin", "adminpw", {"system": {"all": True}})
            self.taken = time.monotonic()
        return self.call(method, path, body, self.token)[1]


def make(url, file):
    keystone = Keystone(url)
    admin = keystone.admin

    roles = {role["name"]: role["id"] for role in admin("GET", "/v3/roles")["roles"]}
    for name in ROLES:
        if name not in roles:
            roles[name] = admin("POST", "/v3/roles", {"role": {"name": name}})["role"]["id"]
    projects = {project["name"]: project["id"] for project in admin("GET", "/v3/projects")["projects"]}
    for name in PROJECTS:
        if name not in projects:
            project = {"name": name, "domain_id": "default"}
            projects[name] = admin("POST", "/v3/projects", {"project": project})["project"]["id"]
    service = admin("POST", "/v3/services", {"service": {"name": "ironic", "type": "baremetal"}})["service"]["id"]
    for interface in ("public", "internal", "admin"):
        admin("POST", "/v3/endpoints", {"endpoint": {
            "service_id": service, "interface": interface, "region_id": "RegionOne", "url": "http://127.0.0.1:6385"}})

    personas = []

    def persona(name, role, scope, *names):
        user = {"name": name, "domain_id": "default", "password": name + "-pw"}
        uid = admin("POST", "/v3/users", {"user": user})["user"]["id"]
        assigned = {
            "system": [f"/v3/system/users/{uid}"],
            "domain": [f"/v3/domains/default/users/{uid}"],
            "project": [f"/v3/projects/{projects[project]}/users/{uid}" for project in names],
        }.get(scope, [])
        for where in assigned:
            admin("PUT", f"{where}/roles/{roles[role]}")
        personas.append({
            "persona": name, "user_id": uid, "password": name + "-pw", "role": role, "scope": scope,
            "project": names[-1] if names else None, "project_id": projects[names[-1]] if names else None})

    for role in ROLES:
        persona("system-" + role, role, "system")
    persona("cloud-admin", "admin", "project", "admin")
    persona("ironic", "service", "project", "service")
    persona("nova", "service", "project", "service")
    for project in ("owner-a", "lessee-a", "owner-b", "lessee-b"):
        for role in ROLES:
            persona(f"{project}-{role}", role, "project", project)
    persona("owner-a-member2", "member", "project", "owner-a")
    persona("outsider-member", "member", "project", "outsider")
    # A member of two projects, whose tokens are for the second.
    persona("both-member", "member", "project", "owner-a", "lessee-a")
    persona("domain-admin", "admin", "domain")
    persona("unscoped", "member", "none")

    owner = next(one for one in personas if one["persona"] == "owner-a-member")
    token = keystone.log_in("owner-a-member", owner["password"], {"project": {"id": owner["project_id"]}})
    rules = [{"service": "baremetal", "method": "GET", "path": "/v1/nodes/**"},
             {"service": "baremetal", "method": "GET", "path": "/v1/nodes"}]
    for name, more in (("owner-a-appcred", {}), ("owner-a-appcred-rules", {"access_rules": rules})):
        secret = name + "-secret"
        credential = keystone.call(
            "POST", f"/v3/users/{owner['user_id']}/application_credentials",
            {"application_credential": {"name": name, "secret": secret, "roles": [{"name": "member"}], **more}},
            token)[1]["application_credential"]
        personas.append({**owner, "persona": name, "scope": "application_credential", "password": None,
                         "application_credential_id": credential["id"], "secret": secret})

    with open(file, "w", encoding="utf-8") as out:
        json.dump({"url": url + "/v3", "projects": projects, "roles": roles, "personas": personas}, out, indent=1)


def settings(file, name):
    with open(file, encoding="utf-8") as known:
        lab = json.load(known)
    one = next((one for one in lab["personas"] if one["persona"] == name), None)
    if one is None:
        raise SystemExit(f"no persona {name}")
    env = {"OS_AUTH_URL": lab["url"], "OS_IDENTITY_API_VERSION": "3", "OS_REGION_NAME": "RegionOne"}
    if one["scope"] == "application_credential":
        env |= {"OS_AUTH_TYPE": "v3applicationcredential",
                "OS_APPLICATION_CREDENTIAL_ID": one["application_credential_id"],
                "OS_APPLICATION_CREDENTIAL_SECRET": one["secret"]}
    else:
        env |= {"OS_AUTH_TYPE": "password", "OS_USERNAME": name, "OS_PASSWORD": one["password"],
                "OS_USER_DOMAIN_ID": "default"}
        env |= {"system": {"OS_SYSTEM_SCOPE": "all"}, "domain": {"OS_DOMAIN_ID": "default"},
                "project": {"OS_PROJECT_ID": one["project_id"]}}.get(one["scope"], {})
    print("for name in ${!OS_*}; do unset \"$name\"; done")
    for key, value in env.items():
        print(f"export {key}='{value}'")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["list", path]:
            with open(path, encoding="utf-8") as known:
                print("\n".join(one["persona"] for one in json.load(known)["personas"]))
        case ["env", path, who]:
            settings(path, who)
        case [url, path]:
            make(url, path)
        case _:
            raise SystemExit(__doc__)
