"""Names that frameworks give to operations, read back as the verb and noun that they were made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import toolgen
from toolgen.connectors.openapi.framework_names import framework_names

CASES = [
    # FastAPI
    ("read_item_items__item_id__get", "GET", "/items/{item_id}", "read_item"),
    ("create_user_api_v1_users__post", "POST", "/api/v1/users/", "create_user"),
    ("root__get", "GET", "/", "root"),
    ("get_file_files__file_path__get", "GET", "/files/{file_path}", "get_file"),
    ("read_item_items__item_id__get", "PUT", "/items/{item_id}", ""),
    # NestJS
    ("UsersController_findAll", "GET", "/users", "list_users"),
    ("UsersController_findOne", "GET", "/users/{id}", "get_user"),
    ("UsersController_remove", "DELETE", "/users/{id}", "delete_user"),
    ("UsersController_resetPassword", "POST", "/users/{id}/reset", "reset_password"),
    ("UserController_activate", "POST", "/users/{id}/activate", "activate_user"),
    ("UsersController_me", "GET", "/users/me", "get_me"),
    ("MediaController_findMany", "GET", "/media", "list_media"),
    ("PostsController_findBySlug", "GET", "/posts/{slug}", "find_post_by_slug"),
    ("OrderItemsController_findAll_v2", "GET", "/v2/order-items", "list_order_items"),
    # springfox and springdoc
    ("getUserUsingGET", "GET", "/users/{id}", "get_user"),
    ("saveOrderUsingPOST_1", "POST", "/orders", "save_order"),
    ("findAll_1", "GET", "/invoices", "list_invoices"),
    ("delete_2", "DELETE", "/companies/{id}", "delete_company"),
    ("getAll", "GET", "/api/v1/pets", "list_pets"),
    ("getUserUsingGET", "POST", "/users/{id}", ""),
    ("step_1", "POST", "/wizard", ""),
    ("search_1", "GET", "/api/orders/search", "search_orders"),
    ("countUsingGET", "GET", "/api/invoices/count", "count_invoices"),
    ("activate_2", "POST", "/api/users/{id}/activate", "activate_user"),
    ("export_3", "GET", "/export", ""),
    # NSwag and Azure
    ("Users_GetAll", "GET", "/api/Users", "list_users"),
    ("Users_GetById", "GET", "/api/Users/{id}", "get_user"),
    ("VirtualMachines_CreateOrUpdate", "PUT", "/vm/{name}", "create_or_update_virtual_machine"),
    ("VirtualMachines_ListByLocation", "GET", "/locations/{location}/vms", "list_virtual_machines_by_location"),
    ("Clickwraps_DeleteClickwrap", "DELETE", "/clickwraps/{id}", "delete_clickwrap"),
    ("ActionTypes_CreateEntity", "POST", "/ActionTypes", "create_action_type_entity"),
    ("Users_GetRoles", "GET", "/api/Users/{id}/roles", "get_user_roles"),
    ("StorageAccounts_CheckNameAvailability", "POST", "/checkNameAvailability", "check_storage_account_name_availability"),
    ("Users_Post", "POST", "/api/Users", "create_user"),
    ("Users_Put", "PUT", "/api/Users/{id}", "replace_user"),
    ("Graphql_Post", "POST", "/graphql", "post_graphql"),
    ("OrdersGET", "GET", "/api/Orders", "list_orders"),
    ("OrdersGET2", "GET", "/api/Orders/{id}", "get_order"),
    ("OrdersPOST", "POST", "/api/Orders", "create_order"),
    ("OrdersGET", "GET", "/api/Invoices", ""),
    ("OrdersGET", "POST", "/api/Orders", ""),
    ("ApiProductsGet", "GET", "/api/Products", "list_products"),
    ("ApiProductsByIdGet", "GET", "/api/Products/{id}", "get_product"),
    ("ApiProductsByIdDelete", "DELETE", "/api/Products/{id}", "delete_product"),
    ("ApiProductsByIdGet", "GET", "/api/Products/{name}", ""),
    ("Foo_Bar", "GET", "/foo", ""),
    # Django REST framework
    ("api_v1_users_list", "GET", "/api/v1/users/", "list_users"),
    ("api_v1_users_retrieve", "GET", "/api/v1/users/{id}/", "get_user"),
    ("api_v1_users_partial_update", "PATCH", "/api/v1/users/{id}/", "update_user"),
    ("api_v1_users_update", "PUT", "/api/v1/users/{id}/", "replace_user"),
    ("users_destroy", "DELETE", "/api/v1/users/{id}/", "delete_user"),
    ("users_retrieve_2", "GET", "/api/users/{id}/", "get_user"),
    ("users_set_password_create", "POST", "/users/{id}/set_password/", "set_password"),
    ("orders_list", "GET", "/invoices/", ""),
    # Laravel and Google
    ("users.index", "GET", "/users", "list_users"),
    ("admin.users.show", "GET", "/admin/users/{user}", "get_user"),
    ("users.store", "POST", "/users", "create_user"),
    ("users.destroy", "DELETE", "/users/{user}", "delete_user"),
    ("youtube.videos.list", "GET", "/youtube/v3/videos", "list_videos"),
    ("drive.files.copy", "POST", "/files/{fileId}/copy", "copy_file"),
    ("acme.thing", "GET", "/thing", ""),
    ("youtube.videos.rate", "POST", "/youtube/v3/videos/rate", "rate_video"),
    ("gmail.users.messages.batchDelete", "POST", "/users/{userId}/messages/batchDelete", "batch_delete_messages"),
    ("auth.login", "POST", "/login", ""),
    # AWS and Kubernetes
    ("RunInstances_2016_11_15", "POST", "/#Action=RunInstances", "run_instances"),
    ("ListFunctions20150331", "GET", "/2015-03-31/functions/", "list_functions"),
    ("ListDistributions2020_05_31", "GET", "/2020-05-31/distribution", "list_distributions"),
    ("ListOrders20201399", "GET", "/orders", ""),
    ("GET_DescribeVpcs", "GET", "/#Action=DescribeVpcs", "describe_vpcs"),
    ("GET_DescribeVpcs", "POST", "/#Action=DescribeVpcs", ""),
    ("readCoreV1NamespacedPod", "GET", "/api/v1/namespaces/{namespace}/pods/{name}", "read_namespaced_pod"),
    ("listAppsV1beta1NamespacedDeployment", "GET", "/apis/apps/v1beta1/namespaces/{n}/deployments", "list_namespaced_deployment"),
    ("readCoreV1NamespacedPod", "GET", "/pods/{name}", ""),
    ("ClientPortalUsers_QueryUserDefinedFieldDefinitions", "GET", "/fields", "query_client_portal_user_defined_field_definitions"),
    ("WebhookFields_QueryFieldDefinitions", "GET", "/fields", "query_webhook_field_definitions"),
    # an author's own
    ("getPetById", "GET", "/pets/{id}", ""),
    ("repos/list-for-org", "GET", "/orgs/{org}/repos", ""),
    ("teams/list", "GET", "/orgs/{org}/teams", ""),
    ("list_pets", "GET", "/pets", ""),
    ("", "GET", "/pets", ""),
]  # fmt: skip


@pytest.mark.parametrize(("identifier", "method", "path", "name"), CASES)
def test_a_convention_is_read_back_and_an_own_name_is_left(identifier: str, method: str, path: str, name: str) -> None:
    found = framework_names(identifier, method, path)
    assert "_".join(found[0]) == name if found else name == ""


def _document(*operations: tuple[str, str, str]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for identifier, method, path in operations:
        parameters = [
            {"name": part.strip("{}"), "in": "path", "required": True, "schema": {"type": "string"}}
            for part in path.split("/")
            if part.startswith("{")
        ]
        operation = {"operationId": identifier, "parameters": parameters, "responses": {"200": {"description": "ok"}}}
        paths.setdefault(path, {})[method.lower()] = operation
    server = [{"url": "https://a.example"}]
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": server, "paths": paths}


def test_operations_of_one_name_are_told_apart_by_their_paths_all_of_them(tmp_path: Path) -> None:
    document = _document(
        ("findAll_1", "GET", "/admin/users"),
        ("findAll_2", "GET", "/public/users"),
        ("findAll_3", "GET", "/orders"),
    )
    path = tmp_path / "s.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    tools = toolgen.build({"s": {"openapi": str(path)}}).tools
    assert {tool.origin: name for name, tool in tools.items()} == {
        "#/paths/~1admin~1users/get": "s__list_users_admin",
        "#/paths/~1public~1users/get": "s__list_users_public",
        "#/paths/~1orders/get": "s__list_orders",
    }
    assert tools["s__list_orders"].title == "List orders"


def test_versions_of_a_kind_are_told_apart_by_group_and_version() -> None:
    path = "/apis/apps/v1beta2/namespaces/{namespace}/daemonsets"
    assert framework_names("createAppsV1beta2NamespacedDaemonSet", "POST", path)[:3] == (
        ("create", "namespaced", "daemon", "set"),
        ("create", "namespaced", "daemon", "set", "apps"),
        ("create", "namespaced", "daemon", "set", "apps", "v1beta2"),
    )


def test_a_name_that_two_have_keeps_its_noun_and_gets_the_shortest_addition(tmp_path: Path) -> None:
    base = "/subscriptions/{s}/resourceGroups/{r}/providers/Microsoft.Compute/virtualMachines"
    document = _document(
        ("VirtualMachines_List", "GET", base),
        ("VirtualMachines_ListAll", "GET", "/subscriptions/{s}/providers/Microsoft.Compute/virtualMachines"),
    )
    path = tmp_path / "s.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    names = [*toolgen.build({"s": {"openapi": str(path)}}).tools]
    assert sorted(names) == ["s__list_virtual_machines_resource_groups", "s__list_virtual_machines_subscriptions"]


@pytest.mark.parametrize(
    ("method", "path", "name", "title"),
    [
        ("POST", "/v1/users:batchGet", "batch_get_users", "Batch get users"),
        ("POST", "/v1/files/{id}:cancel", "cancel_file", "Cancel a file"),
        ("POST", "/v1/files/{id}/copies:bulk-delete", "bulk_delete_file_copies", "Bulk delete copies of a file"),
        ("POST", "/login", "login", "Login"),
        ("POST", "/api/sign-up", "sign_up", "Sign up"),
        ("GET", "/search", "get_search", "Get the search"),
    ],
)
def test_a_method_of_its_own_is_the_verb(tmp_path: Path, method: str, path: str, name: str, title: str) -> None:
    place = tmp_path / "s.json"
    document = _document(("", method, path))
    del document["paths"][path][method.lower()]["operationId"]
    place.write_text(json.dumps(document), encoding="utf-8")
    (tool,) = toolgen.build({"s": {"openapi": str(place)}}).tools.values()
    assert (tool.name, tool.title) == (f"s__{name}", title)


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/v1/users/{id}", "get_user"),
        ("GET", "/api/v2/users", "list_users"),
        ("POST", "/v1/users", "create_user"),
        ("GET", "/v1", "get_v1"),
    ],
)
def test_a_version_in_a_path_is_in_no_name(tmp_path: Path, method: str, path: str, name: str) -> None:
    place = tmp_path / "s.json"
    document = _document(("", method, path))
    del document["paths"][path][method.lower()]["operationId"]
    place.write_text(json.dumps(document), encoding="utf-8")
    assert list(toolgen.build({"s": {"openapi": str(place)}}).tools) == [f"s__{name}"]
